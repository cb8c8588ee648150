package linearize

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what is wrong with a history.
type Verdict struct {
	Violations   []string
	Inconclusive []string      // nobody knows
	Checked      int           // operations that porcupine got
	Took         time.Duration // to check
}

// Check checks a history. Patience is for how long at most porcupine may think about one name, or one part of its history.
func Check(h *History, patience time.Duration) *Verdict {
	start, v, f := time.Now(), &Verdict{}, factsOf(h)
	v.checkIntervals(f)
	v.checkModel(f, patience)
	v.Took = time.Since(start)
	return v
}

// OK reports that everything is known, and right.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 && len(v.Inconclusive) == 0 }

func (v *Verdict) String() string {
	return strings.Join(append(v.Violations, v.Inconclusive...), "\n")
}

// most is how many violations of a sort are listed.
const most = 5

func (v *Verdict) wrong(format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// wrongs tells the first of many.
func (v *Verdict) wrongs(what string, all []string) {
	for i, text := range all {
		if i == most {
			v.wrong("%s: and %d more", what, len(all)-most)
			return
		}
		v.wrong("%s: %s", what, text)
	}
}
