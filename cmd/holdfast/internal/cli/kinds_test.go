package cli

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/scripts"
)

// The command line has a name and a list of Redis rights for each kind of lock that the library has, and for no other kind.
func TestKinds_AreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	var all, words []holdfast.Kind
	for _, kind := range scripts.Everything() {
		all = append(all, kind.Name)
	}
	for _, kind := range kinds {
		words = append(words, kind.kind)
	}
	assert.ElementsMatch(t, all, words)
	assert.ElementsMatch(t, all, slices.Collect(maps.Keys(rightsByKind)))
}
