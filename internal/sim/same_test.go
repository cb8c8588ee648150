package sim_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/sim"
)

var (
	hashes = flag.Bool("sim.hashes", false, "TestSim_SameSeedSameHistory prints a hash for each seed, and compares nothing")
	shaken = flag.Bool("sim.shaken", false, "TestSim_SameSeedSameHistory has two processors, so that goroutines that are ready at one instant run in any order")
)

// A seed always gives the same history, to the last message and nanosecond, in this process and in another.
//
// Many more worlds, with the most faults: go test ./internal/sim -race -run SameSeed -sim.shaken -sim.count 500
func TestSim_SameSeedSameHistory(t *testing.T) {
	n := *count
	if n == 0 {
		n = locktest.Scaled(80, 6)
	}
	if *shaken {
		before := runtime.GOMAXPROCS(2)
		defer runtime.GOMAXPROCS(before)
	}
	if *hashes {
		for s := range uint64(n) {
			fmt.Printf("hash %d %016x\n", *first+s, run(t, *first+s, sim.Mutant{}).Hash)
		}
		return
	}
	elsewhere := hashesElsewhere(t, *first, n)
	for s := *first; s < *first+uint64(n); s++ {
		hash := hashOf(t, s)
		for i := 0; i < tries && fmt.Sprintf("%016x", hash) != elsewhere[s]; i++ {
			elsewhere[s] = hashesElsewhere(t, s, 1)[s]
		}
		assert.Equal(t, fmt.Sprintf("%016x", hash), elsewhere[s], "seed %d, in another process", s)
	}
}

// tries is how often a world is run again if its history differs. A busy machine sometimes interrupts a goroutine, so that another one
// that is ready at the same instant runs first. That is rare, whereas a runtime that acts by chance differs every time.
const tries = 3

// hashOf runs a world twice and returns the hash of both histories.
func hashOf(t *testing.T, seed uint64) uint64 {
	one, other := run(t, seed, sim.Mutant{}), run(t, seed, sim.Mutant{})
	for i := 0; i < tries && one.Hash != other.Hash; i++ {
		one, other = other, run(t, seed, sim.Mutant{})
	}
	assert.Equal(t, one.Hash, other.Hash, "seed %d: %s", seed, difference(one.History, other.History))
	return other.Hash
}

// hashesElsewhere runs worlds in another process.
func hashesElsewhere(t *testing.T, first uint64, n int) map[uint64]string {
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.timeout", "10m",
		"-sim.hashes", "-sim.first", fmt.Sprint(first), "-sim.count", fmt.Sprint(n))
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := map[uint64]string{}
	for _, line := range regexp.MustCompile(`(?m)^hash \d+ [0-9a-f]{16}$`).FindAllString(string(out), -1) {
		var seed uint64
		var hash string
		_, err := fmt.Sscanf(line, "hash %d %s", &seed, &hash)
		require.NoError(t, err)
		found[seed] = hash
	}
	return found
}

// difference shows where two histories begin to differ.
func difference(one, other string) string {
	a, b := strings.Split(one, "\n"), strings.Split(other, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n%s\n%s\n%s", i, a[max(i-1, 0)], a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, %d lines; see more with -sim.wires", len(a), len(b))
}
