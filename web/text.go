package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// functions are the functions that the templates call.
var functions = template.FuncMap{
	"made":   func(s string) template.HTML { return template.HTML(s) }, //nolint:gosec // The templates have rendered this text.
	"pieces": pieces,
}

// piece is a piece of a text from Redis. Characters that are invisible, or would change how their surroundings look, are escaped.
type piece struct {
	Text    string
	Escaped bool
}

// pieces cuts a text into pieces that can be shown as they are, and pieces that must be escaped.
func pieces(s string) (made []piece) {
	if s == "" {
		return []piece{{`""`, true}}
	}
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		text, escaped := s[:size], false
		if c == utf8.RuneError && size == 1 {
			text, escaped = fmt.Sprintf(`\x%02x`, s[0]), true
		} else if !unicode.IsPrint(c) {
			text, escaped = escape(c), true
		}
		if n := len(made); n > 0 && made[n-1].Escaped == escaped {
			made[n-1].Text += text
		} else {
			made = append(made, piece{text, escaped})
		}
		s = s[size:]
	}
	return made
}

func escape(c rune) string {
	switch {
	case c < 0x80:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
}

// plain returns s as a text that can be the title of a window.
func plain(s string) string {
	var text strings.Builder
	for _, p := range pieces(s) {
		text.WriteString(p.Text)
	}
	return text.String()
}

// span returns a length of time as people read it. page.js has the same function.
func span(d time.Duration) string {
	s := int(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d m %02d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d m", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %02d h", s/86400, s/3600%24)
}
