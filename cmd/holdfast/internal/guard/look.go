//go:build unix

package guard

import "time"

// lookEvery limits how late a deadline is noticed where timers stand still while the machine is suspended.
const lookEvery = 100 * time.Millisecond

// lookAgain returns in how many milliseconds to look at the clock.
func lookAgain(deadline time.Duration) int {
	left := max(0, min(deadline-Now(), lookEvery))
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
