package gateway

import (
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/actors/redisnode"
	"github.com/holdfast-go/holdfast/scripts"
)

// refusal is an error reply of the server.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// If the expected reply to a pipeline's mark is missing, the replies to the other commands of the pipeline do not count. The only exception: a
// refusal counts if the server refuses the mark, too.
func TestBatch_MarkDecidesWhatCounts(t *testing.T) {
	const done, refused, unknown = scripts.Done, scripts.Refused, scripts.Unknown
	loading, broken := refusal("LOADING x"), io.ErrUnexpectedEOF
	replies := []error{nil, redis.Nil, loading, broken}
	for _, c := range []struct {
		what string
		text any   // the reply to the mark
		err  error // an error in place of the reply
		want []scripts.Class
	}{
		{"the mark comes back", "1", nil, []scripts.Class{done, done, refused, unknown}},
		{"another mark comes back", "2", nil, []scripts.Class{unknown, unknown, unknown, unknown}},
		{"another reply to the mark", int64(1), nil, []scripts.Class{unknown, unknown, unknown, unknown}},
		{"the connection breaks", nil, broken, []scripts.Class{unknown, unknown, unknown, unknown}},
		{"the mark is refused as another command is", nil, refusal("ERR unknown subcommand 'setinfo'"), []scripts.Class{unknown, unknown, unknown, unknown}},
		{"the mark is refused", nil, loading, []scripts.Class{unknown, unknown, refused, unknown}},
	} {
		mark := redisnode.NewCommand("ping", "1")
		mark.SetVal(c.text)
		mark.SetErr(c.err)
		var parcels []parcel
		for i, err := range replies {
			parcels = append(parcels, parcel{Command: redisnode.NewCommand("evalsha")})
			parcels[i].SetErr(err)
		}
		if err := missing(mark, "1"); err != nil {
			invalidateReplies(err, parcels)
		}
		var got []scripts.Class
		for _, p := range parcels {
			got = append(got, scripts.Classify(p.Err()))
		}
		assert.Equal(t, c.want, got, c.what)
		assert.True(t, errors.Is(parcels[3].Err(), broken), c.what)
	}
}
