package linearize

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each history is a few operations. An operation is written as a verb, the number of the lease, its call and return in ms, the result, and optional
// fields. Operations on lease 1 are those of owner o1 and of grant g1, unless owner= or grant= says otherwise.
func TestModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind string
		legal      bool
		ops        string
	}{
		{"one after the other", "lock", true, `
			acquire 1 0-1 ok until=95; valid 1 2-3 ok until=95; release 1 4-5 ok
			acquire 2 3-6 ok until=105; release 2 7-8 ok`},
		{"two at once", "lock", false, `
			acquire 1 0-1 ok until=95; acquire 2 10-11 ok until=105; valid 1 12-13 ok until=95`},
		{"granted before the deadline of an idle holder", "lock", false, `
			acquire 1 0-1 ok until=95; acquire 2 10-94 ok until=190`},
		{"granted after the deadline", "lock", true, `
			acquire 1 0-1 ok until=95; acquire 2 10-97 ok until=190; release 1 98-99 lost; release 2 100-101 ok`},
		{"granted before a renewed deadline", "lock", false, `
			acquire 1 0-1 ok until=95; valid 1 40-41 ok until=135; acquire 2 10-97 ok until=190`},
		{"valid after somebody else was granted the lock", "lock", false, `
			acquire 1 0-1 ok until=95; acquire 2 96-97 ok until=190; valid 1 98-99 ok until=150`},
		{"valid for longer than a lease", "lock", false, `
			acquire 1 0-1 ok until=95; valid 1 2-3 ok until=250`},
		{"released without being held", "lock", false, `
			acquire 1 0-1 ok until=95; acquire 2 96-97 ok until=190; release 1 98-99 ok`},
		{"lost before its time", "lock", false, `
			acquire 1 0-1 ok until=95; lost 1 50-50 lost`},
		{"lost at the deadline, and the release says so", "lock", true, `
			acquire 1 0-1 ok until=95; lost 1 95-95 lost; release 1 99-99 lost`},
		{"a release with an unknown outcome", "lock", true, `
			acquire 1 0-1 ok until=95; release 1 10-60 unknown; acquire 2 20-25 ok until=119; release 2 30-31 ok`},
		{"re-entered, and released as often", "lock", true, `
			acquire 1 0-1 ok until=95 owner=o; acquire 2 2-3 ok until=95 owner=o grant=g1
			release 2 4-5 ok owner=o grant=g1; release 1 6-7 ok owner=o; acquire 3 8-9 ok until=105`},
		{"free after the first of two releases", "lock", false, `
			acquire 1 0-1 ok until=95 owner=o; acquire 2 2-3 ok until=95 owner=o grant=g1
			release 2 4-5 ok owner=o grant=g1; acquire 3 8-9 ok until=105`},
		{"a try names the holder", "lock", true, `
			acquire 1 0-1 ok until=95; try 2 10-11 busy names=g1`},
		{"a try names a holder of long ago", "lock", false, `
			acquire 1 0-1 ok until=95; release 1 2-3 ok; try 2 300-301 busy names=g1`},
		{"a try names a grant that may still be in Redis", "lock", true, `
			acquire 1 0-1 ok until=95; release 1 2-60 unknown; try 2 100-101 busy names=g1`},
		{"a try names the grant of an acquire that was given up", "lock", true, `
			acquire 1 0-20 cancelled; try 2 30-31 busy names=g1`},
		{"extended, and lost at once", "lock", false, `
			acquire 1 0-1 ok until=95; extend 1 10-11 ok until=105; lost 1 96-96 lost`},
		{"extended without being held", "lock", false, `
			acquire 1 0-1 ok until=95; acquire 2 96-97 ok until=190; extend 1 98-99 ok until=190`},
		{"the shorter time counts until an extend is confirmed", "lock", true, `
			acquire 1 0-1 ok until=95; extend 1 2-90 unknown length=50; acquire 2 60-61 ok until=155; release 1 91-92 lost`},
		{"freed by force, and its holder learns that in time", "lock", true, `
			acquire 1 0-1 ok until=95; force 9 10-11 ok; acquire 2 12-13 ok until=105; valid 1 20-21 ok until=97; lost 1 30-30 lost`},
		{"freed by force, and renewed for ever", "lock", false, `
			acquire 1 0-1 ok until=95; force 9 10-11 ok; acquire 2 12-13 ok until=105; valid 1 40-41 ok until=135`},
		{"freed by force while it lingered, and granted again before the message arrived", "fenced lock", true, `
			acquire 1 0-1 ok until=95 token=7; release 1 2-3 ok token=7; force 9 10-11 ok; acquire 2 12-13 ok until=105 token=9
			release 2 14-15 ok token=9; acquire 3 16-17 ok until=95 token=8 grant=g1; valid 3 20-21 ok until=95 grant=g1 token=8; lost 3 30-30 lost grant=g1`},
		{"granted again without a force, although another has had it", "fenced lock", false, `
			acquire 1 0-1 ok until=95 token=7; release 1 2-3 ok token=7; acquire 2 12-13 ok until=105 token=9
			release 2 14-15 ok token=9; acquire 3 16-17 ok until=95 token=8 grant=g1`},
		{"freed by force after another has had it, and granted again", "fenced lock", false, `
			acquire 1 0-1 ok until=95 token=7; release 1 2-3 ok token=7; acquire 2 4-5 ok until=99 token=9; force 9 10-11 ok
			acquire 3 16-17 ok until=95 token=8 grant=g1`},
		{"force finds nothing where there is something", "lock", false, `
			acquire 1 0-1 ok until=95; force 9 10-11 busy`},
		{"tokens grow", "fenced lock", true, `
			acquire 1 0-1 ok until=95 token=7; release 1 2-3 ok token=7; acquire 2 4-5 ok until=99 token=9`},
		{"the same token again", "fenced lock", false, `
			acquire 1 0-1 ok until=95 token=7; release 1 2-3 ok token=7; acquire 2 4-5 ok until=99 token=7`},
		{"readers beside each other", "read/write lock", true, `
			acquire 1 0-1 ok until=95 mode=read; acquire 2 2-3 ok until=97 mode=read
			release 1 4-5 ok mode=read; release 2 4-5 ok mode=read; acquire 3 6-7 ok until=101 mode=write`},
		{"a reader beside a writer", "read/write lock", false, `
			acquire 1 0-1 ok until=95 mode=write; acquire 2 2-3 ok until=97 mode=read`},
		{"a writer beside a reader", "read/write lock", false, `
			acquire 1 0-1 ok until=95 mode=read; acquire 2 2-3 ok until=97 mode=write`},
		{"a writer may read", "read/write lock", true, `
			acquire 1 0-1 ok until=95 mode=write owner=o; acquire 2 2-3 ok until=97 mode=read owner=o
			release 1 4-5 ok mode=write owner=o; acquire 3 6-7 ok until=101 mode=read`},
		{"as many holders as there are permits", "permit semaphore", true, `
			acquire 1 0-1 ok until=95; acquire 2 0-1 ok until=95; try 4 2-3 busy`},
		{"one permit too many", "permit semaphore", false, `
			acquire 1 0-1 ok until=95; acquire 2 0-1 ok until=95; acquire 4 2-3 ok until=97`},
		{"refused although permits are free", "permit semaphore", false, `
			acquire 1 0-1 ok until=95; try 4 2-3 busy`},
		{"refused because of an acquire whose first reply was lost", "permit semaphore", true, `
			acquire 1 0-1 ok until=95; acquire 2 10-60 ok until=147; try 4 20-21 busy`},
		{"refused before an acquire was sent", "permit semaphore", false, `
			acquire 1 0-1 ok until=95; acquire 2 30-60 ok until=147; try 4 20-21 busy`},
		{"in the order of the queue", "fair lock", true, `
			acquire 1 0-1 ok until=95; look 5 2,3; release 1 6-7 ok; look 8 3
			acquire 2 2-9 ok until=105; release 2 10-11 ok; look 12; acquire 3 3-14 ok until=109`},
		{"past the head of the queue", "fair lock", false, `
			acquire 1 0-1 ok until=95; look 5 2,3; release 1 6-7 ok; look 8 2
			acquire 3 3-9 ok until=105`},
		{"past the whole queue", "fair lock", false, `
			acquire 1 0-1 ok until=95; look 5 2,3; release 1 6-7 ok; acquire 4 8-9 ok until=105; look 10 2,3`},
		{"a grant that has left the queue is overtaken", "fair lock", true, `
			acquire 1 0-1 ok until=95; look 5 2,3; look 6 3; release 1 7-8 ok; look 9
			acquire 3 3-9 ok until=105; acquire 2 2-10 cancelled`},
		{"a grant whose first acquire was not told of it", "fair lock", true, `
			acquire 1 0-1 ok until=95; look 5 2,3; release 1 6-7 ok; acquire 2 2-9 cancelled; look 10 3 held=2; look 11 3
			acquire 3 3-12 ok until=107; release 3 13-14 ok; look 15; acquire 2 20-21 ok until=116`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, h := &Verdict{}, written(t, c.kind, c.ops)
			v.checkModel(factsOf(h), time.Minute)
			assert.Equal(t, c.legal, v.OK(), "%s", v)
		})
	}
}

// A long history is cut into pieces at instants at which nobody holds the lock. Each piece starts with the largest token of the pieces before it.
func TestCut(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 9 {
		at := 40 * i // longer than a grant may linger
		text += fmt.Sprintf("acquire %d %d-%d ok until=%d token=%d; release %d %d-%d ok token=%d\n", i, at, at+1, at+90, 100-i, i, at+2, at+3, 100-i)
	}
	k := KindOf("fenced lock")
	pieces := cut(k, operations(k, factsOf(written(t, k.Name, text)), "n"))
	require.Len(t, pieces, 9)
	for i, p := range pieces {
		assert.Equal(t, i == 0, porcupine.CheckOperations(p.model, p.ops), "its token is smaller than all tokens before it")
	}
}

// written makes a history from a text.
func written(t *testing.T, kind, text string) *History {
	const length = 100 * time.Millisecond
	h := &History{Setting: Setting{Kind: kind, Lease: length, Longest: length, Names: []string{"n"}}}
	for i := range 10 {
		h.Setting.Runtimes = append(h.Setting.Runtimes, fmt.Sprintf("g%d", i))
	}
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == "look" {
			h.Looks = append(h.Looks, writtenLook(t, words))
		} else if len(words) > 0 {
			h.Ops = append(h.Ops, writtenOp(t, words, length))
		}
	}
	return h
}

func ms(t *testing.T, text string) time.Duration {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return time.Duration(n) * time.Millisecond
}

func writtenOp(t *testing.T, words []string, length time.Duration) Op {
	number, err := strconv.Atoi(words[1])
	require.NoError(t, err)
	from, to, _ := strings.Cut(words[2], "-")
	op := Op{
		Do: words[0], Name: "n", Runtime: number, User: number, Lease: number, Owner: "o" + words[1], Length: length,
		Call: ms(t, from), Return: ms(t, to), Result: words[3],
	}
	if op.Do != doForce && op.Result != isBusy && op.Result != isCancelled {
		op.Grant = "g" + words[1]
	}
	for _, word := range words[4:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "until":
			op.Until = ms(t, value)
		case "length":
			op.Length = ms(t, value)
		case "token":
			op.Token, err = strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
		case "names":
			op.Holder = value
		case "owner":
			op.Owner = value
		case "grant":
			op.Grant = value
		case "mode":
			op.Mode = value
		default:
			require.Fail(t, word)
		}
	}
	return op
}

// writtenLook makes a look from a text: its time, the queue, and the holder.
func writtenLook(t *testing.T, words []string) Look {
	at := ms(t, words[1])
	seen := Seen{Alive: map[string]time.Duration{}}
	for _, word := range words[2:] {
		if holder, found := strings.CutPrefix(word, "held="); found {
			seen.Holders = []string{"g" + holder}
			continue
		}
		for _, number := range strings.Split(word, ",") {
			seen.Queue = append(seen.Queue, "g"+number)
			seen.Alive["g"+number] = at + time.Hour
		}
	}
	return Look{Call: at, Return: at, Server: at, Seen: map[string]Seen{"n": seen}}
}

// changes returns which grants have left a queue and which have joined its end.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, left, came string }{
		{"", "", "", ""},
		{"", "ab", "", "ab"},
		{"ab", "ab", "", ""},
		{"ab", "b", "a", ""},
		{"abc", "acd", "b", "d"},
		{"abc", "ca", "ab", "a"},
		{"ab", "", "ab", ""},
		{"ab", "cd", "ab", "cd"},
	} {
		left, came := changes(strings.Split(c.before, "")[:len(c.before)], strings.Split(c.after, "")[:len(c.after)])
		assert.Equal(t, c.left, strings.Join(left, ""), c)
		assert.Equal(t, c.came, strings.Join(came, ""), c)
	}
}
