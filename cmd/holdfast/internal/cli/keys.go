package cli

import (
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// key is a key of the keyboard: a character, or one of the names below.
type key string

const (
	keyUp, keyDown, keyPageUp, keyPageDown key = "up", "down", "page up", "page down"
	keyHome, keyEnd                        key = "home", "end"
	keyEnter, keyEscape, keyBackspace      key = "enter", "escape", "backspace"
	keyUnknown                             key = "unknown"
)

// sequences are the escape sequences that terminals send for keys without a character. The leading ESC is left out.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "OA": keyUp, "OB": keyDown, "[5~": keyPageUp, "[6~": keyPageDown,
	"[H": keyHome, "[F": keyEnd, "OH": keyHome, "OF": keyEnd, "[1~": keyHome, "[4~": keyEnd,
}

// escapeWait is how long to wait after an ESC for the rest of its escape sequence: a slow connection may deliver a sequence in parts. If nothing
// follows, the user has pressed Esc.
const escapeWait = 50 * time.Millisecond

// keysOf returns a channel of the keys that are typed. It closes the channel at the end of the input.
func keysOf(from io.Reader) <-chan key {
	chunks, keys := make(chan string), make(chan key)
	go func() {
		defer close(chunks)
		buffer := make([]byte, 256)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				chunks <- string(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(keys)
		for typed := range chunks {
			for typed != "" {
				k, length := decode(typed)
				if k == "" || k == keyEscape && length == len(typed) {
					if more := within(chunks, escapeWait); more != "" {
						typed += more
						continue
					}
					if k == "" {
						k = keyUnknown
					}
				}
				keys <- k
				typed = typed[length:]
			}
		}
	}()
	return keys
}

// within returns the next chunk, or "" if none arrives in time or the input has ended.
func within(chunks <-chan string, wait time.Duration) string {
	select {
	case more := <-chunks:
		return more
	case <-time.After(wait):
		return ""
	}
}

// decode returns the first key in the text `typed`, and the key's length in bytes. The key is "" if the text ends before the key is complete.
func decode(typed string) (key, int) {
	switch c := typed[0]; {
	case c == 0x1b && len(typed) > 1 && (typed[1] == '[' || typed[1] == 'O'):
		end := strings.IndexFunc(typed[2:], func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return "", len(typed)
		}
		end += 3
		if k, known := sequences[typed[1:end]]; known {
			return k, end
		}
		return keyUnknown, end
	case c == 0x1b:
		return keyEscape, 1
	case c == '\r' || c == '\n':
		return keyEnter, 1
	case c == 0x7f || c == 0x08:
		return keyBackspace, 1
	case c < ' ':
		return keyUnknown, 1
	}
	if !utf8.FullRuneInString(typed) {
		return "", len(typed)
	}
	_, length := utf8.DecodeRuneInString(typed)
	return key(typed[:length]), length
}
