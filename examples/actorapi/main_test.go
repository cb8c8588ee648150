package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun_EachClerkHasItsTurn(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 11)
	var names []string
	for i := 0; i < 6; i += 2 { // the clerks may come in any order
		name, _, _ := strings.Cut(lines[i], " ")
		assert.Equal(t, []string{name + " has the lock", name + " gives it back"}, lines[i:i+2], "one at a time")
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"Anna", "Ben", "Carla"}, names)
	assert.Equal(t, []string{
		"Dora has the lock", "Emil has the lock", "Emil gives it back", "Fritz has the lock", "Fritz lost it: undo the half-done order",
	}, lines[6:])
}
