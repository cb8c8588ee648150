package run

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress shows on a terminal what is being measured and how long the rest takes, in one line that it overwrites. It does not write this
// line if the output is not a terminal.
type progress struct {
	out         io.Writer
	live        bool
	start       time.Time
	total, done time.Duration // as estimated beforehand
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, start: time.Now()}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// now shows the present activity.
func (p *progress) now(format string, args ...any) {
	if !p.live {
		return
	}
	text := fmt.Sprintf(format, args...)
	if p.total > 0 {
		text = fmt.Sprintf("%3.0f %%  %s left  %s", 100*float64(p.done)/float64(p.total), p.left(), text)
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
}

// left estimates how long the rest takes, from the pace so far.
func (p *progress) left() time.Duration {
	if p.done == 0 {
		return p.total.Round(time.Second)
	}
	pace := float64(time.Since(p.start)) / float64(p.done)
	return time.Duration(pace * float64(p.total-p.done)).Round(time.Second)
}

// line writes a line that stays.
func (p *progress) line(format string, args ...any) {
	p.clear()
	if p.out != nil {
		fmt.Fprintln(p.out, strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
