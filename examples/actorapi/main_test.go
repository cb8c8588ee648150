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
	for _, line := range []string{"first clerk has the lock", "first clerk gave it back", "second clerk has the lock", "second clerk gave it back"} {
		assert.Equal(t, 1, strings.Count(out.String(), line+"\n"), line)
	}
}
