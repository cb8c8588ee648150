// Package text prepares data for terminals and for JSON. Names and values from Redis may contain anything, and must be shown as mere data.
package text

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Show returns s as printable text. Everything that a terminal could interpret is escaped: control characters, escape sequences, characters
// that change the direction of text, invalid UTF-8. Text with escaped characters is quoted. Text is also quoted if it is empty, begins with a
// quote or a combining mark, or begins or ends with a space. Text that is written from right to left is followed by a mark that keeps the next
// column in its place.
func Show(s string) string {
	if !plain(s) {
		return strconv.Quote(s)
	}
	if strings.ContainsFunc(s, rightToLeft) {
		return s + "\u200e"
	}
	return s
}

// Message returns the message of a program with its unprintable characters escaped. Line feeds stay.
func Message(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Line is Message on one line.
func Line(s string) string { return strings.ReplaceAll(Message(s), "\n", " ") }

func plain(s string) bool {
	if s == "" || !utf8.ValidString(s) || s[0] == '"' || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	if unicode.IsMark(first) {
		return false // it would combine with the character before it
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func rightToLeft(r rune) bool {
	return r >= 0x590 && r <= 0x8ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff || r >= 0x10800 && r <= 0x10fff ||
		r >= 0x1e800 && r <= 0x1efff
}

// Width returns how many columns of a terminal a printable text takes.
func Width(s string) (columns int) {
	for _, r := range s {
		columns += width(r)
	}
	return columns
}

func width(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd, r >= 0x2600 && r <= 0x27bf:
		return 2
	}
	return 1
}

// Cut shortens a printable text to at most the given number of columns. If something is missing, the text ends with an ellipsis.
func Cut(s string, columns int) string {
	if Width(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	left := columns - 1
	for i, r := range s {
		if left -= width(r); left < 0 {
			s = s[:i]
			break
		}
	}
	return s + "…"
}

// Pad adds spaces to a printable text up to a number of columns.
func Pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-Width(s)))
}

// JSON returns v as one line of JSON. Characters that a terminal could interpret as something other than text are escaped.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		switch {
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String() + "\n"), nil
}

// Bytes returns s in base64 if s is not valid UTF-8, and "" if it is. A JSON string cannot represent invalid UTF-8.
func Bytes(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}
