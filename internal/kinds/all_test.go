package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/scripts"
)

// locktest.Kinds must list every kind of lock that has one holder. Many tests loop over that list to check what all these kinds promise.
func TestKinds_AreAllTested(t *testing.T) {
	t.Parallel()
	var tested, all []string
	for _, kind := range locktest.Kinds {
		tested = append(tested, kind.Name)
	}
	for _, kind := range scripts.Everything() {
		if kind.Counting == nil && kind.Grants != scripts.GrantPerProcess {
			all = append(all, string(kind.Name))
		}
	}
	assert.ElementsMatch(t, all, tested)
}
