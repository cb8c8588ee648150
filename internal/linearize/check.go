package linearize

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is the result of a check.
type Verdict struct {
	Violations   []string
	Inconclusive []string      // checks without a result
	Checked      int           // operations that porcupine checked
	Took         time.Duration // the time for the check
}

// Check checks a history. For each name, porcupine searches for an order of all operations. If porcupine has no answer within patience, the
// operations are cut into parts. Then porcupine searches for an order of each part, for up to patience per part.
func Check(h *History, patience time.Duration) *Verdict {
	start, v, f := time.Now(), &Verdict{}, factsOf(h)
	v.checkIntervals(f)
	v.checkModel(f, patience)
	v.Took = time.Since(start)
	return v
}

// OK reports whether the check is complete and has found nothing wrong.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 && len(v.Inconclusive) == 0 }

func (v *Verdict) String() string {
	return strings.Join(append(v.Violations, v.Inconclusive...), "\n")
}

// most is how many violations of each assertion are listed.
const most = 5

func (v *Verdict) wrong(format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf(format, args...))
}

// wrongs adds the first few of many violations, and the number of the others.
func (v *Verdict) wrongs(what string, all []string) {
	for i, text := range all {
		if i == most {
			v.wrong("%s: and %d more", what, len(all)-most)
			return
		}
		v.wrong("%s: %s", what, text)
	}
}
