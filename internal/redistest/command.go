package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// commandWait bounds one command.
const commandWait = 5 * time.Second

// serverError is an error reply of the server.
type serverError string

func (e serverError) Error() string { return string(e) }

// command sends one command, whose arguments may not contain spaces. It opens a connection of its own to the
// unix socket and makes no handshake, so that the server's statistics count no other command.
func (in *instance) command(line string) (string, error) {
	conn, err := net.DialTimeout("unix", in.socket(), commandWait)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(commandWait))
	if _, err := io.WriteString(conn, line+"\r\n"); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// readReply reads a simple string, an error, an integer or a bulk string.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", serverError(text)
	case '$':
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 {
			return "", fmt.Errorf("bulk string of length %q", text)
		}
		body := make([]byte, size)
		_, err = io.ReadFull(r, body)
		return string(body), err
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}
