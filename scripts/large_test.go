package scripts_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/scripts"
)

// By default, Lua formats a number of more than 14 digits as 1.2345678901234e+14. Counts may have up to 15 digits, and tokens up to 16.
func TestCounts_LargeOnesAreExact(t *testing.T) {
	const large = 123_456_789_012_345
	on(t, func(b bed) {
		set := func(n int64) { require.NoError(b, b.Set(b.Context(), b.name, n, 0).Err()) }
		holds := func(n int64) { b.Helper(); assert.Equal(b, strconv.FormatInt(n, 10), b.key()) }
		published := b.listening(scripts.SemaphoreChannel(b.name))
		told := func(n ...int64) {
			b.Helper()
			var texts []string
			for _, one := range n {
				texts = append(texts, strconv.FormatInt(one, 10))
			}
			assert.Equal(b, texts, published())
		}
		twice := func(want int64, op *scripts.CountOp, request string, numbers ...int64) {
			b.Helper()
			for range 2 { // the retry reads the stored result
				assert.Equal(b, want, b.count(op, request, numbers...), op.Word)
			}
		}

		set(large - 5)
		twice(large, scripts.SemaphoreAdd, us+":1", 5)
		holds(large)
		told(large)
		twice(large, scripts.SemaphoreDrain, us+":2")
		holds(0)
		set(large)
		terms := scripts.CountTerms{Request: us + ":3", Numbers: []int64{large - 7}}
		for range 2 {
			counted := b.counted(scripts.SemaphoreAcquire, terms)
			assert.Equal(b, []bool{true}, counted.Served)
			assert.EqualValues(b, 7, counted.Number)
			holds(7)
		}
		for range 2 {
			b.counted(scripts.SemaphoreAcquire.Undo, scripts.CountTerms{Request: us + ":3"})
			holds(large)
		}
		told(large)
		reserve := scripts.CountTerms{Request: us + ":4", Numbers: []int64{large + 1}, Reserve: time.Minute}
		assert.True(b, b.counted(scripts.SemaphoreAcquire, reserve).Reserved)
		b.counted(scripts.SemaphoreAcquire, scripts.CountTerms{Request: us + ":5", Reserve: -1})
		told(large)

		twice(large+2, scripts.PermitsAdd, us+":6", 2)
		holds(large + 2)
		twice(large, scripts.PermitsSet, us+":7", large)
		holds(large)
		assert.EqualValues(b, large, b.count(scripts.PermitsAll, us+":8"))
		told(2, large)
		require.True(b, b.take(scripts.Permit, scripts.Terms{Grant: permit(1), Lease: time.Minute}).Granted)
		assert.True(b, b.give(scripts.Permit, scripts.Terms{Grant: permit(1)}).Held)
		holds(large)
		told(large)
		twice(large-1, scripts.LatchCountDown, us+":9", 1)
		holds(large - 1)
	})
}

func TestTokens_LargeOnesAreExact(t *testing.T) {
	const large = 1<<53 - 1000
	on(t, func(b bed) {
		require.NoError(b, b.Set(b.Context(), scripts.FencedLock.Keeps(b.name), large, 0).Err())
		first := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":1", Lease: time.Minute})
		assert.True(b, first.Granted)
		assert.EqualValues(b, large+1, first.Tokens.First)
		assert.Equal(b, strconv.FormatInt(first.Tokens.Last, 10), b.Get(b.Context(), scripts.FencedLock.Keeps(b.name)).Val())
		b.give(scripts.FencedLock, scripts.Terms{Grant: us + ":1"})
		second := b.take(scripts.FencedLock, scripts.Terms{Grant: us + ":2", Lease: time.Minute})
		assert.Equal(b, first.Tokens.Last+1, second.Tokens.First)
	})
}
