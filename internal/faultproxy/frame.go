package faultproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// maxFrame bounds one request or reply.
const maxFrame = 64 << 20

// readFrame reads one whole request or reply, of RESP2 or RESP3, including everything nested in it. If a line does not begin with a type of RESP, it
// is an inline request, and a whole frame by itself.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var frame []byte
	for missing := 1; missing > 0; missing-- {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		frame = append(frame, line...)
		body, values, err := sizes(line)
		if err != nil {
			return nil, err
		}
		if len(frame)+body > maxFrame || values > maxFrame {
			return nil, fmt.Errorf("faultproxy: frame of more than %d bytes", maxFrame)
		}
		if body > 0 {
			start := len(frame)
			frame = append(frame, make([]byte, body)...)
			if _, err := io.ReadFull(r, frame[start:]); err != nil {
				return nil, err
			}
		}
		missing += values
	}
	return frame, nil
}

// sizes returns how much follows a line: a number of bytes (body) or a number of nested values (values).
// Nothing follows a line with the length -1, which is RESP2's null.
func sizes(line []byte) (body, values int, err error) {
	kind := line[0]
	if !bytes.ContainsRune([]byte("$=!*~>%|"), rune(kind)) {
		return 0, 0, nil
	}
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil || n < -1 {
		return 0, 0, fmt.Errorf("faultproxy: bad length %q", line)
	}
	if n == -1 {
		return 0, 0, nil
	}
	switch kind {
	case '$', '=', '!': // strings
		return n + len("\r\n"), 0, nil
	case '%': // a map of n pairs
		return 0, 2 * n, nil
	case '|': // n pairs of attributes, and the value that they describe
		return 0, 2*n + 1, nil
	}
	return 0, n, nil
}

// subscribes reports whether a request changes subscriptions. Such a request is answered by messages, one
// for each channel.
func subscribes(request []byte) bool {
	name := bytes.ToUpper(firstWord(request))
	return bytes.HasSuffix(name, []byte("SUBSCRIBE"))
}

// firstWord returns the command of a request.
func firstWord(request []byte) []byte {
	if request[0] == '*' {
		parts := bytes.SplitN(request, []byte("\r\n"), 4)
		if len(parts) < 3 {
			return nil
		}
		return parts[2]
	}
	word, _, _ := bytes.Cut(bytes.TrimSpace(request), []byte(" "))
	return word
}
