package actors

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJoin_IsOneLine(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	assert.NoError(t, Join(nil, nil))
	assert.Equal(t, one, Join(nil, one), "a single error is returned as it is")
	err := Join(one, nil, other)
	assert.Equal(t, "one; other", err.Error())
	assert.ErrorIs(t, err, one)
	assert.ErrorIs(t, err, other)
}
