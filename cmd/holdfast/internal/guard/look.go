//go:build unix

package guard

import "time"

// lookEvery limits how late a deadline is noticed on systems whose timers do not count the time for which the machine is suspended.
const lookEvery = 100 * time.Millisecond

// lookAgain returns the number of milliseconds until the next look at the clock.
func lookAgain(deadline time.Duration) int {
	left := max(0, min(deadline-Now(), lookEvery))
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
