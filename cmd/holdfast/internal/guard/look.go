//go:build unix

package guard

import "time"

// lookEvery is the longest time between two looks at the clock if timers stand still while the machine is suspended. A deadline that passes during a
// suspension is noticed at most this long after the machine resumes.
const lookEvery = 100 * time.Millisecond

// lookAgain returns the number of milliseconds until the next look at the clock.
func lookAgain(deadline time.Duration) int {
	left := max(0, min(deadline-Now(), lookEvery))
	return int((left + time.Millisecond - 1) / time.Millisecond)
}
