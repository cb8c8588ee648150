package sim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/sim"
)

// once lists worlds in which something once was wrong, with the runtime or with the simulation's expectations. An entry stays until
// the plan or the nemesis changes, because its seed then means another world.
var once = []struct {
	seed uint64
	why  string
}{
	{8, "who enters again what the server has forgotten: the lease is as old as its first hold"},
	{4885, "whose connections have all broken while nobody used them, more of them than he has patience for"},
	{20056, "whose release the server refuses right before its process closes"},
	{10585, "a process holds a fair lock without renewals, and those of it who stand in the queue lose their places"},
	{1223, "who cannot connect for long, and then has to wait for go-redis"},
	{130, "who waits behind a reader of his own process, whose fixed lease was ended by force from outside"},
}

func TestSim_Once(t *testing.T) {
	for _, w := range once {
		assert.Empty(t, run(t, w.seed, sim.Mutant{}).Violations, "%s: -sim.seed=%d", w.why, w.seed)
	}
}
