package sim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/sim"
)

// once lists worlds that have once found a bug in the runtime, or a wrong expectation of the simulation. An entry stays until the plan or the nemesis
// changes: from then on, its seed gives another world.
var once = []struct {
	seed uint64
	why  string
}{
	{8, "an owner re-enters a lock that the server has forgotten: the lease is as old as its first hold"},
	{4885, "all idle connections of a user have broken, more than its wait allows it to try"},
	{20056, "the server refuses a release right before the process closes"},
	{10585, "a process holds a fair lock without renewals, and its waiters in the queue lose their places"},
	{1223, "a user cannot connect for a long time, and then has to wait for go-redis"},
	{402022, "an owner re-enters a lock that the server has forgotten, while another process keeps it for an at-least time"},
	{408825, "the caller that sends its own acquire learns 125 ms late that a repeat was granted, and its at-least time counts from that grant"},
	{402839, "a process behind a crowd whose processes do not exist finds the lock taken when it tries again, and waits once more"},
	{420466, "a process is over when its reader's lease has expired, although Redis keeps the reader's field because of another reader"},
	{420340, "a user waits behind a reader of its own process, which was ended by force, while the lock lingers in another process"},
	{403253, "a multi lock loses a member; the runtime releases the other one, which lingers until another user of the process gets it"},
	{130, "a user waits behind a reader of its own process, whose fixed lease another process has ended by force"},
}

func TestSim_Once(t *testing.T) {
	for _, w := range once {
		assert.Empty(t, run(t, w.seed, sim.Mutant{}).Violations, "%s: -sim.seed=%d", w.why, w.seed)
	}
}
