package redistest

// Pause stops the server (SIGSTOP). Connections stay, and the kernel even accepts new ones, but nothing is
// answered until Resume.
func (s *Server) Pause() {
	s.tb.Helper()
	s.alone("Pause")
	if err := s.in.process().Stop(); err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
}

// Resume continues a paused server (SIGCONT). The server then executes what was sent to it meanwhile.
func (s *Server) Resume() {
	s.tb.Helper()
	s.alone("Resume")
	if err := s.in.process().Cont(); err != nil {
		s.tb.Fatalf("redistest: %v", err)
	}
}

// Kill ends the server at once (SIGKILL), as a crash would. Its port refuses connections until Restart.
func (s *Server) Kill() {
	s.tb.Helper()
	s.alone("Kill")
	s.in.process().Kill()
}

// Restart starts the server again on the same port and in the same directory, and returns when it answers.
// Without persistence the server is empty. A server that still runs is killed first.
func (s *Server) Restart() {
	s.tb.Helper()
	s.alone("Restart")
	if err := s.in.restart(); err != nil {
		s.tb.Fatalf("redistest: restart: %v", err)
	}
}

// alone fails the test if the server is shared, because the named method would disturb other tests.
func (s *Server) alone(method string) {
	s.tb.Helper()
	if s.shared {
		s.tb.Fatalf("redistest: %s on the shared server: use Start", method)
	}
}
