package wait

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/rpc"
)

// The repeat of an unanswered call goes first, because its first copy may have acquired the lock, which blocks others.
func TestFailures_RepeatsGoFirst(t *testing.T) {
	t.Parallel()
	var f Failures
	assert.False(t, f.Patient(0, 2*time.Second, 10*time.Second, 0).First)
	f.Add(time.Second, &rpc.Call{Timing: rpc.Patient(0, 2*time.Second, 10*time.Second)}, assert.AnError)
	assert.True(t, f.Patient(time.Second, 2*time.Second, 10*time.Second, 0).First)
}
