package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// CommandStats returns how often each of the named commands was called since the server started or since the
// last CONFIG RESETSTAT, including calls by scripts. Names are in lower case. The name of a subcommand has the form
// "script|load". The count of a named command that was never called is 0. Without names, CommandStats returns the
// counts of all commands that were called.
//
// The numbers are for the whole server, so they are meaningful only on a server that no other test uses.
func (s *Server) CommandStats(tb testing.TB, names ...string) map[string]int64 {
	tb.Helper()
	info, err := s.in.command("INFO commandstats")
	if err != nil {
		tb.Fatalf("redistest: INFO commandstats: %v", err)
	}
	calls, err := parseCommandStats(info)
	if err != nil {
		tb.Fatalf("redistest: INFO commandstats: %v", err)
	}
	if len(names) == 0 {
		return calls
	}
	wanted := make(map[string]int64, len(names))
	for _, name := range names {
		wanted[name] = calls[name]
	}
	return wanted
}

// parseCommandStats reads lines such as "cmdstat_get:calls=3,usec=7,...".
func parseCommandStats(info string) (map[string]int64, error) {
	calls := map[string]int64{}
	for line := range strings.Lines(info) {
		name, rest, isStat := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !isStat {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		calls[name] = n
	}
	return calls, nil
}
