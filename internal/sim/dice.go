package sim

import (
	"math/rand/v2"
	"time"
)

// dice draw random values by hashing what each draw is for, so the order of the draws makes no difference.
type dice uint64

func mix(x uint64) uint64 { // SplitMix64
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// of returns the dice for one particular thing.
func (d dice) of(parts ...uint64) dice {
	h := uint64(d)
	for _, p := range parts {
		h = mix(h ^ mix(p))
	}
	return dice(h)
}

// below returns a duration in [0, limit).
func (d dice) below(limit time.Duration) time.Duration {
	return time.Duration(mix(uint64(d)) % uint64(max(limit, 1)))
}

// stream returns a random source for code that draws many values, one after the other. Unlike those of dice, its values depend on the order of draws.
func (d dice) stream() *rand.Rand { return rand.New(rand.NewPCG(uint64(d), mix(uint64(d)))) }

// between returns a random duration in [least, most), to the nanosecond, so two draws are almost never equal.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(max(most-least, 1))))
}
