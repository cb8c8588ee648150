package run

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCounters_OthersAreNeitherTheContenderNorItsServerNorTheHarness(t *testing.T) {
	at := time.Now()
	before := counters{at: at, idle: time.Hour, cores: 2, cpu: time.Minute, clients: time.Second, harness: time.Second}
	// The contender's window is one second of the two between the readings; it works in both.
	after := counters{
		at: at.Add(2 * time.Second), idle: time.Hour + time.Second, cores: 2, cpu: time.Minute + 900*time.Millisecond,
		clients: time.Second + 1700*time.Millisecond, harness: time.Second + 200*time.Millisecond,
	}
	assert.InDelta(t, 0.1, after.since(before, 0).others(), 1e-9)

	after.idle -= time.Second
	assert.InDelta(t, 0.6, after.since(before, 0).others(), 1e-9)
}

// What a contender's process does before and after its window is in the reading of its CPU, too.
func TestProcessCPU_CountsAllOfAProcess(t *testing.T) {
	for begin := harnessCPU(); harnessCPU()-begin < 100*time.Millisecond; {
	}
	before := harnessCPU()
	read := processCPU(os.Getpid())
	after := harnessCPU()
	assert.GreaterOrEqual(t, read, before-2*tick, "each of the two parts is rounded down")
	assert.LessOrEqual(t, read, after+2*tick)
}
