package scripts_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/scripts"
)

// count runs an operation with this request id, and returns the resulting number.
func (b bed) count(op *scripts.CountOp, request string, numbers ...int64) int64 {
	b.Helper()
	return b.counted(op, scripts.CountTerms{Request: request, Numbers: numbers}).Number
}

func (b bed) counted(op *scripts.CountOp, t scripts.CountTerms) scripts.Counted {
	b.Helper()
	t.Keep = 30 * time.Second
	reply, err := b.run(op.Call(site, b.name, t))
	require.NoError(b, err)
	counted, err := scripts.ReadCounted(reply, op, &t)
	require.NoError(b, err)
	return counted
}

// key returns the value of the counter's key, or "" if there is no key.
func (b bed) key() string {
	b.Helper()
	value, err := b.Get(b.Context(), b.name).Result()
	if err != nil {
		require.ErrorIs(b, err, redis.Nil)
	}
	return value
}

// listening subscribes to a channel, and returns a function that returns the messages published since its last call.
func (b bed) listening(channel string) (published func() []string) {
	b.Helper()
	pubsub := b.Subscribe(b.Context(), channel)
	b.Cleanup(func() { _ = pubsub.Close() })
	_, err := pubsub.Receive(b.Context())
	require.NoError(b, err)
	return func() (all []string) {
		require.NoError(b, b.Publish(b.Context(), channel, "end").Err())
		for {
			message, err := pubsub.ReceiveMessage(b.Context())
			require.NoError(b, err)
			if message.Payload == "end" {
				return all
			}
			all = append(all, message.Payload)
		}
	}
}

// nearKeep checks that the key with a request's result has the intended TTL.
func (b bed) nearKeep(request string) {
	b.Helper()
	ttl, err := b.PTTL(b.Context(), scripts.AttemptKey(b.name, request)).Result()
	require.NoError(b, err)
	assert.InDelta(b, 30, ttl.Seconds(), 2)
}

func TestSemaphore_OnTheWire(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.SemaphoreChannel(b.name))
		assert.Equal(b, int64(0), b.count(scripts.SemaphoreRead, us+":1"))
		assert.Equal(b, int64(1), b.count(scripts.SemaphoreTrySet, us+":2", 5))
		assert.Equal(b, int64(0), b.count(scripts.SemaphoreTrySet, us+":3", 7))
		assert.Equal(b, "5", b.key())
		assert.Equal(b, time.Duration(-1), b.PTTL(b.Context(), b.name).Val(), "no TTL")
		assert.Equal(b, int64(8), b.count(scripts.SemaphoreAdd, us+":4", 3))
		assert.Equal(b, int64(-2), b.count(scripts.SemaphoreAdd, us+":5", -10))
		assert.Equal(b, int64(-1), b.count(scripts.SemaphoreRelease, us+":6", 1))
		assert.Equal(b, int64(0), b.count(scripts.SemaphoreRelease, us+":7", 1))
		assert.Equal(b, int64(4), b.count(scripts.SemaphoreRelease, us+":8", 4))
		assert.Equal(b, int64(4), b.count(scripts.SemaphoreRead, us+":9"))
		assert.Equal(b, int64(4), b.count(scripts.SemaphoreDrain, us+":10"))
		assert.Equal(b, "0", b.key())
		assert.Equal(b, int64(1), b.count(scripts.SemaphoreDelete, us+":11"))
		assert.Equal(b, int64(0), b.count(scripts.SemaphoreDelete, us+":12"))
		assert.Empty(b, b.key())
		assert.Equal(b, int64(0), b.count(scripts.SemaphoreDrain, us+":13"))
		assert.Empty(b, b.key(), "as with Redisson, it can still be set")
		assert.Equal(b, []string{"5", "8", "0", "4"}, published(), "Redisson also publishes negative numbers, on which its listener throws")
	})
}

func TestSemaphoreRelease_CreatesIt(t *testing.T) {
	on(t, func(b bed) {
		assert.Equal(b, int64(2), b.count(scripts.SemaphoreRelease, us+":1", 2))
		assert.Equal(b, "2", b.key())
	})
}

func TestSemaphoreAcquire_ServesInOrder(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.SemaphoreChannel(b.name))
		served := func(request string, wanted ...int64) []bool {
			return b.counted(scripts.SemaphoreAcquire, scripts.CountTerms{Request: request, Numbers: wanted}).Served
		}
		notSet := func(request string) bool {
			return b.counted(scripts.SemaphoreAcquire, scripts.CountTerms{Request: request, Numbers: []int64{5}}).NotSet
		}
		assert.True(b, notSet(us+":91"))
		assert.Equal(b, []bool{false}, served(us+":1", 1), "without a key there are no permits")
		b.count(scripts.SemaphoreTrySet, us+":2", 6)
		assert.Equal(b, []bool{true, true, false, false}, served(us+":3", 2, 1, 4, 1), "no request overtakes a waiter")
		assert.Equal(b, "3", b.key())
		assert.Equal(b, []bool{false, true, false}, served(us+":4", -4, 2, 4), "a try that is refused does not block the requests behind it")
		assert.Equal(b, "1", b.key())
		assert.Equal(b, []bool{true}, served(us+":5", -1))
		assert.Equal(b, "0", b.key())
		assert.False(b, notSet(us+":92"), "the number is set, although no permit is left")
		assert.Equal(b, []string{"6"}, published())
		b.nearKeep(us + ":3")
		assert.Zero(b, b.Exists(b.Context(), scripts.AttemptKey(b.name, us+":1")).Val(), "a request that took nothing needs no result")
	})
}

func TestCounts_ARepeatChangesNothing(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.SemaphoreChannel(b.name))
		for i, step := range []struct {
			op      *scripts.CountOp
			numbers []int64
			returns int64
			key     string
		}{
			{scripts.SemaphoreTrySet, []int64{9}, 1, "9"},
			{scripts.SemaphoreAcquire, []int64{2, 3, 5}, 4, "4"},
			{scripts.SemaphoreRelease, []int64{5}, 9, "9"},
			{scripts.SemaphoreAdd, []int64{-1}, 8, "8"},
			{scripts.SemaphoreDrain, nil, 8, "0"},
			{scripts.SemaphoreDelete, nil, 1, ""},
			{scripts.SemaphoreTrySet, []int64{9}, 1, "9"},
		} {
			request := us + ":" + string(rune('a'+i))
			for range 3 {
				counted := b.counted(step.op, scripts.CountTerms{Request: request, Numbers: step.numbers})
				assert.Equal(b, step.returns, counted.Number, step.op.Word)
				if step.op.Way == scripts.Take {
					assert.Equal(b, []bool{true, true, false}, counted.Served)
				}
				assert.Equal(b, step.key, b.key(), step.op.Word)
			}
			b.nearKeep(request)
		}
		assert.Equal(b, []string{"9", "9", "8", "9"}, published())
		b.count(scripts.SemaphoreDelete, us+":1")
		assert.Equal(b, int64(1), b.count(scripts.SemaphoreTrySet, us+":2", 3))
		assert.Equal(b, int64(1), b.count(scripts.SemaphoreDelete, us+":1"), "a late repeat does not delete a counter that was set since")
		assert.Equal(b, "3", b.key())
	})
}

func TestCounts_TooLateChangesNothing(t *testing.T) {
	on(t, func(b bed) {
		b.count(scripts.SemaphoreTrySet, us+":1", 5)
		late := b.Time(b.Context()).Val().Add(-time.Second).UnixMilli()
		for _, op := range []*scripts.CountOp{
			scripts.SemaphoreAcquire, scripts.SemaphoreRelease, scripts.SemaphoreAdd, scripts.SemaphoreDrain, scripts.SemaphoreTrySet,
			scripts.SemaphoreDelete, scripts.LatchCountDown, scripts.LatchTrySet, scripts.LatchDelete,
		} {
			call := op.Call(site, b.name, scripts.CountTerms{Request: us + ":2", Numbers: []int64{1}, Keep: time.Second})
			require.True(b, call.Bounded(), op.Word)
			call.SetNotAfter(late)
			_, err := b.send(call)
			_, isLate := scripts.LateBy(err)
			assert.True(b, isLate, "%s: %v", op.Word, err)
			assert.Equal(b, "5", b.key())
		}
		call := scripts.SemaphoreDrain.Call(site, b.name, scripts.CountTerms{Request: us + ":3", Keep: time.Second})
		call.Limit = late
		call.SetNotAfter(late + 5000)
		_, err := b.send(call)
		_, isLate := scripts.LateBy(err)
		assert.True(b, isLate, "a call is also refused after its Limit")
		assert.Zero(b, b.Exists(b.Context(), scripts.AttemptKey(b.name, us+":2"), scripts.AttemptKey(b.name, us+":3")).Val())
	})
}

func TestCounts_AnsweredResultsAreDeleted(t *testing.T) {
	on(t, func(b bed) {
		exist := func(requests ...string) (n int64) {
			for _, request := range requests {
				n += b.Exists(b.Context(), scripts.AttemptKey(b.name, request)).Val()
			}
			return n
		}
		b.count(scripts.SemaphoreTrySet, us+":0", 5)
		last := us + ":0"
		for i, op := range []*scripts.CountOp{
			scripts.SemaphoreAcquire, scripts.SemaphoreRelease, scripts.SemaphoreAdd, scripts.SemaphoreDrain, scripts.SemaphoreTrySet,
			scripts.SemaphoreDelete, scripts.LatchTrySet, scripts.LatchCountDown, scripts.LatchDelete,
		} {
			request := us + ":" + string(rune('a'+i))
			terms := scripts.CountTerms{Request: request, Numbers: []int64{2}, Answered: []string{last, us + ":none"}}
			b.counted(op, terms)
			assert.Zero(b, exist(last), op.Word)
			assert.Equal(b, int64(1), exist(request), op.Word)
			b.counted(op, terms) // a retry also deletes the results of answered requests
			last = request
		}
		b.counted(scripts.Forget, scripts.CountTerms{Request: us + ":1", Answered: []string{last}})
		keys, err := b.Keys(b.Context(), "*"+b.name+"*").Result()
		require.NoError(b, err)
		assert.Empty(b, keys)
	})
}

func TestSemaphoreUndo(t *testing.T) {
	on(t, func(b bed) {
		undo := func(request string) int64 { return b.count(scripts.SemaphoreAcquire.Undo, request) }
		b.count(scripts.SemaphoreTrySet, us+":1", 5)
		published := b.listening(scripts.SemaphoreChannel(b.name))
		b.count(scripts.SemaphoreAcquire, us+":2", 2, 1, 7)
		assert.Equal(b, int64(3), undo(us+":2"), "undo returns the permits that the request has taken")
		assert.Equal(b, "5", b.key())
		assert.Equal(b, int64(0), undo(us+":2"), "a repeat returns nothing")
		assert.Equal(b, "5", b.key())
		assert.Equal(b, []bool{false}, b.counted(scripts.SemaphoreAcquire, scripts.CountTerms{Request: us + ":3", Numbers: []int64{9}}).Served)
		assert.Equal(b, int64(0), undo(us+":3"), "the request has taken nothing")
		assert.Equal(b, int64(0), undo(us+":4"), "the request has not run yet")
		for _, request := range []string{us + ":2", us + ":4"} {
			_, err := b.run(scripts.SemaphoreAcquire.Call(site, b.name, scripts.CountTerms{Request: request, Numbers: []int64{1}, Keep: time.Second}))
			require.NoError(b, err)
			assert.Equal(b, "5", b.key(), "a late copy of the request takes nothing")
		}
		b.count(scripts.SemaphoreDrain, us+":5")
		assert.Equal(b, int64(5), undo(us+":5"))
		assert.Equal(b, "5", b.key())
		b.count(scripts.SemaphoreAdd, us+":6", -7)
		assert.Equal(b, int64(-2), b.count(scripts.SemaphoreDrain, us+":7"))
		assert.Equal(b, int64(-2), undo(us+":7"))
		assert.Equal(b, "-2", b.key())
		assert.Equal(b, []string{"5", "5"}, published())

		b.count(scripts.SemaphoreAdd, us+":8", 5)
		b.count(scripts.SemaphoreAcquire, us+":9", 1)
		b.count(scripts.SemaphoreDelete, us+":10")
		assert.Equal(b, int64(0), undo(us+":9"), "undo does not create a semaphore that was deleted meanwhile")
		assert.Empty(b, b.key())
	})
}

func TestSemaphoreAcquire_Reservation(t *testing.T) {
	on(t, func(b bed) {
		another := *site
		another.Runtime = "v"
		number := 0
		acquire := func(s *scripts.Site, reserve, rest time.Duration, wanted ...int64) (served string, reserved bool) {
			number++
			terms := scripts.CountTerms{
				Request: s.Runtime + ":" + string(rune('A'+number)), Numbers: wanted, Keep: time.Second, Reserve: reserve, Rest: rest,
			}
			reply, err := b.run(scripts.SemaphoreAcquire.Call(s, b.name, terms))
			require.NoError(b, err)
			counted, err := scripts.ReadCounted(reply, scripts.SemaphoreAcquire, &terms)
			require.NoError(b, err)
			for _, yes := range counted.Served {
				served += map[bool]string{true: "1", false: "0"}[yes]
			}
			return served, counted.Reserved
		}
		expect := func(wantServed string, wantReserved bool) func(served string, reserved bool) {
			return func(served string, reserved bool) {
				b.Helper()
				assert.Equal(b, []any{wantServed, wantReserved}, []any{served, reserved})
			}
		}
		want := func() string { return b.Get(b.Context(), scripts.WantKey(b.name)).Val() }
		b.count(scripts.SemaphoreTrySet, "x:1", 3)
		published := b.listening(scripts.SemaphoreChannel(b.name))

		expect("1", false)(acquire(site, time.Minute, time.Minute, 1)) // served: nothing to reserve
		expect("0", true)(acquire(site, time.Minute, time.Minute, 3))
		assert.Equal(b, us, want())
		assert.InDelta(b, 60, b.PTTL(b.Context(), scripts.WantKey(b.name)).Val().Seconds(), 2)
		expect("0", false)(acquire(&another, 0, 0, 1)) // refused because of the reservation, although two are free
		expect("0", false)(acquire(&another, 0, 0, -1))
		expect("0", false)(acquire(&another, time.Minute, 0, 3)) // the first reservation stays
		expect("0", true)(acquire(site, time.Minute, time.Minute, 3))
		assert.Equal(b, []string(nil), published())

		b.count(scripts.SemaphoreRelease, "x:2", 2)
		expect("1", false)(acquire(site, time.Minute, time.Minute, 3))
		assert.Equal(b, "rest "+us, want(), "served: nobody may reserve for a while")
		assert.Equal(b, []string{"4", "1"}, published(), "waiters that the reservation kept out learn the number of permits left")
		expect("0", false)(acquire(&another, time.Minute, time.Minute, 3))
		expect("0", false)(acquire(site, time.Minute, time.Minute, 3))
		expect("1", false)(acquire(&another, 0, 0, 1))

		require.NoError(b, b.Del(b.Context(), scripts.WantKey(b.name)).Err()) // as if it had expired
		expect("0", true)(acquire(site, time.Minute, time.Minute, 3))
		b.count(scripts.SemaphoreRelease, "x:3", 1)
		published()
		expect("", false)(acquire(&another, -1, 0)) // another runtime's reservation cannot be ended
		assert.Equal(b, us, want())
		expect("", false)(acquire(site, -1, time.Minute)) // an attempt without waiters ends the reservation
		assert.Equal(b, "rest "+us, want())
		assert.Equal(b, []string{"1"}, published())
		expect("", false)(acquire(site, -1, 0))
		assert.Empty(b, want(), "the rest after the reservation has ended, too")
	})
}

func TestCounts_ForeignKeys(t *testing.T) {
	on(t, func(b bed) {
		ops := []*scripts.CountOp{
			scripts.SemaphoreAcquire, scripts.SemaphoreRelease, scripts.SemaphoreAdd, scripts.SemaphoreDrain, scripts.SemaphoreTrySet,
			scripts.SemaphoreRead, scripts.SemaphoreDelete, scripts.SemaphoreAcquire.Undo,
			scripts.LatchCountDown, scripts.LatchTrySet, scripts.LatchRead, scripts.LatchWait, scripts.LatchDelete,
		}
		refused := func(what string) {
			for _, op := range ops {
				_, err := b.run(op.Call(site, b.name, scripts.CountTerms{Request: us + ":1", Numbers: []int64{1}, Keep: time.Second}))
				assert.ErrorContains(b, scripts.Explain(err), "key holds something else", "%s on %s", op.Word, what)
				assert.Equal(b, scripts.Rejected, scripts.Classify(err), "%s on %s", op.Word, what)
			}
			assert.Zero(b, b.Exists(b.Context(), scripts.AttemptKey(b.name, us+":1")).Val(), what)
		}
		for _, text := range []string{"text", "", "1.5", " 5", "5 ", "+5", "007", "-0", "1e3", "0x10", "12345678901234567", "nan"} {
			require.NoError(b, b.Set(b.Context(), b.name, text, 0).Err())
			refused(text)
			assert.Equal(b, text, b.key())
		}
		require.NoError(b, b.Del(b.Context(), b.name).Err())
		require.NoError(b, b.HSet(b.Context(), b.name, us+":1", 1).Err())
		refused("a lock")
	})
}

func TestLatch_OnTheWire(t *testing.T) {
	on(t, func(b bed) {
		published := b.listening(scripts.LatchChannel(b.name))
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":1", 1), "nothing to count")
		assert.Empty(b, b.key())
		assert.Equal(b, int64(1), b.count(scripts.LatchTrySet, us+":2", 3))
		assert.Equal(b, int64(0), b.count(scripts.LatchTrySet, us+":3", 3))
		assert.Equal(b, "3", b.key())
		for range 3 {
			assert.Equal(b, int64(2), b.count(scripts.LatchCountDown, us+":4", 1), "a repeat counts nothing")
		}
		assert.Equal(b, int64(2), b.count(scripts.LatchRead, us+":5"))
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":6", 2))
		assert.Empty(b, b.key(), "the key is deleted at zero")
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":6", 2))
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":7", 1))
		assert.Equal(b, []string{"1", "0"}, published())

		assert.Equal(b, int64(1), b.count(scripts.LatchTrySet, us+":8", 2), "it can be used again")
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":9", 5), "more than the remaining count")
		assert.Equal(b, int64(1), b.count(scripts.LatchTrySet, us+":10", 0))
		assert.Equal(b, "0", b.key(), "as with Redisson")
		assert.Equal(b, int64(0), b.count(scripts.LatchCountDown, us+":11", 1))
		assert.Empty(b, b.key())
		assert.Equal(b, int64(1), b.count(scripts.LatchTrySet, us+":12", 2))
		assert.Equal(b, int64(1), b.count(scripts.LatchDelete, us+":13"))
		assert.Equal(b, int64(0), b.count(scripts.LatchDelete, us+":14"))
		assert.Equal(b, []string{"1", "0", "1", "1", "1"}, published())
	})
}

// If a user has set a TTL on a semaphore, every operation keeps that TTL. Redisson's addPermits and drainPermits remove it.
func TestSemaphore_KeepsATTL(t *testing.T) {
	on(t, func(b bed) {
		require.NoError(b, b.Set(b.Context(), b.name, 5, time.Minute).Err())
		b.count(scripts.SemaphoreAcquire, us+":1", 1)
		b.count(scripts.SemaphoreRelease, us+":2", 1)
		b.count(scripts.SemaphoreAdd, us+":3", 1)
		b.count(scripts.SemaphoreDrain, us+":4")
		assert.Equal(b, "0", b.key())
		b.nearTTL(time.Minute)
	})
}

// Operations that give something back work even when the server has no memory left. Otherwise the permit or the count-down would be lost.
func TestCounts_GiveBackAtMaxmemory(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	b := bed{client, t, redistest.Name(t)}
	b.count(scripts.SemaphoreTrySet, us+":1", 2)
	b.count(scripts.SemaphoreAcquire, us+":2", 1)
	b.count(scripts.SemaphoreAcquire, us+":3", 1)
	latch := b
	latch.name += "-latch"
	latch.count(scripts.LatchTrySet, us+":4", 2)
	for _, op := range []*scripts.CountOp{
		scripts.SemaphoreRelease, scripts.SemaphoreAcquire, scripts.SemaphoreAcquire.Undo, scripts.LatchCountDown, scripts.SemaphoreDelete,
	} { // load the scripts
		require.NoError(t, client.ScriptLoad(t.Context(), op.Call(site, "x", scripts.CountTerms{Numbers: []int64{1}}).Script.Source).Err())
	}
	require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	full := func(op *scripts.CountOp, name, request string) (any, error) {
		call := op.Call(site, name, scripts.CountTerms{Request: request, Numbers: []int64{1}, Keep: time.Second})
		if call.Bounded() {
			call.SetNotAfter(client.Time(t.Context()).Val().Add(time.Minute).UnixMilli())
		}
		return client.Do(t.Context(), call.Command...).Result()
	}
	_, err := full(scripts.SemaphoreAcquire, b.name, us+":5")
	require.NoError(t, err, "there are no permits, so nothing is written")
	for request, op := range map[string]*scripts.CountOp{us + ":6": scripts.SemaphoreRelease, us + ":3": scripts.SemaphoreAcquire.Undo} {
		_, err := full(op, b.name, request)
		require.NoError(t, err, op.Word)
	}
	assert.Equal(t, "2", b.key())
	_, err = full(scripts.SemaphoreAcquire, b.name, us+":7")
	require.Error(t, err)
	assert.ErrorContains(t, err, "OOM command not allowed", "no permit is taken") // Redis 6.2 puts the position in the script before this text
	for _, request := range []string{us + ":8", us + ":9"} {
		_, err = full(scripts.LatchCountDown, latch.name, request)
		require.NoError(t, err)
	}
	assert.Empty(t, latch.key())
	_, err = full(scripts.SemaphoreDelete, b.name, us+":10")
	require.NoError(t, err)
	assert.Empty(t, b.key())
}

func TestReadCounted_UnexpectedReplies(t *testing.T) {
	t.Parallel()
	take := scripts.CountTerms{Request: us + ":1", Numbers: []int64{1, 2}}
	for _, reply := range []any{
		nil, us + ":1", int64(1), []any{}, []any{us + ":1"}, []any{us + ":2", int64(1)}, []any{us + ":1", "1"}, []any{us + ":1", int64(1), int64(2)},
		[]any{us + ":2", "11", int64(1), int64(0)}, []any{us + ":1", "1", int64(1), int64(0)}, []any{us + ":1", int64(11), int64(1), int64(0)},
	} {
		_, err := scripts.ReadCounted(reply, scripts.SemaphoreRelease, &take)
		assert.ErrorContains(t, err, "unexpected reply", "%v", reply)
		_, err = scripts.ReadCounted(reply, scripts.SemaphoreAcquire, &take)
		assert.ErrorContains(t, err, "unexpected reply", "%v", reply)
	}
}
