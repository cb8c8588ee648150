//go:build unix

package guard

import "time"

// If timers stand still while the machine is suspended, the guardian looks at the clock at least every lookEvery. So if a deadline passes during a
// suspension, the guardian notices it within lookEvery after the machine resumes.
const lookEvery = 100 * time.Millisecond

// lookAgain returns the number of milliseconds until the next look at the clock.
func lookAgain(deadline time.Duration) int {
	left := max(0, min(deadline-Now(), lookEvery))
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
