package inspect

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Redis and the function `matches` must find the same names, so that a pattern means the same with and without ListOptions.Contended.
func TestMatches_AsRedisDoes(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	word := func(letters string, most int) string {
		var b strings.Builder
		for range random.IntN(most + 1) {
			b.WriteByte(letters[random.IntN(len(letters))])
		}
		return b.String()
	}
	var names []string
	for range 500 {
		names = append(names, "n"+word(`abc-]^[\*?{`, 5))
	}
	for _, name := range names {
		require.NoError(t, client.Set(t.Context(), name, 1, 0).Err())
	}
	for range 1000 {
		pattern := "n" + word(`abc-]^[[\**??{`, 7)
		keys, err := client.Keys(t.Context(), pattern).Result()
		require.NoError(t, err)
		found := map[string]bool{}
		for _, key := range keys {
			found[key] = true
		}
		for _, name := range names {
			if !assert.Equal(t, found[name], matches(pattern, name), fmt.Sprintf("%q %q", pattern, name)) {
				return
			}
		}
	}
	assert.True(t, matches("*", ""))
	assert.False(t, matches(strings.Repeat("*a", 50), strings.Repeat("a", 500)+"b"))
}
