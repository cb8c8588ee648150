package run

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOthers_AreNeitherTheHarnessNorItsChildrenNorTheServer(t *testing.T) {
	const harness, server = 100, 50
	programs := map[int]program{
		1:       {all: time.Second},
		2:       {kernel: true, all: time.Minute},
		harness: {parent: 1, all: time.Minute},
		101:     {parent: harness, all: time.Minute}, // a contender, including its CPU before and after its window
		102:     {parent: 101, all: time.Minute},
		server:  {parent: 1, all: time.Minute},
		200:     {parent: 1, all: 2 * time.Second},
		201:     {parent: 200, all: 4 * time.Second},
	}
	assert.Equal(t, 7*time.Second, others(programs, harness, server))

	programs[200] = program{parent: 1, all: 6 * time.Second} // the child has ended, and its CPU counts as that of the parent
	delete(programs, 201)
	assert.Equal(t, 7*time.Second, others(programs, harness, server))
}

func TestOthersCores_IsOfTheTimeBetweenReadings(t *testing.T) {
	at := time.Now()
	before := counters{at: at, others: time.Hour}
	after := counters{at: at.Add(2 * time.Second), others: time.Hour + time.Second}
	assert.InDelta(t, 0.5, after.since(before, 0).othersCores(), 1e-9)

	after.others = 0 // a program has ended, and its parent did not wait for it
	assert.Zero(t, after.since(before, 0).othersCores())
}

func TestProcessCPU_IsThatOfGetrusage(t *testing.T) {
	used := func() time.Duration {
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for begin := used(); used()-begin < 100*time.Millisecond; {
	}
	before := used()
	read := processCPU(os.Getpid())
	after := used()
	assert.GreaterOrEqual(t, read, before-2*tick, "each of the two parts is rounded down")
	assert.LessOrEqual(t, read, after+2*tick)
}
