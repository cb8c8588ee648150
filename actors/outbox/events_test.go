package outbox

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/protocol"
)

// Each event is logged with a message that does not depend on its fields.
func TestEvents_LogRecords(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for text, event := range map[string]protocol.Event{
		`WARN msg="lease lost" kind=lock name=a id=u:1 reason=expired held=2s`: protocol.LeaseLost{
			Kind: "lock", Name: "a", ID: "u:1", Reason: "expired", Held: 2 * time.Second,
		},
		`ERROR msg="lease leaked" kind=lock name=a id=u:1 since=2026-01-02T00:00:00.000Z`: protocol.LeaseLeaked{
			Kind: "lock", Name: "a", ID: "u:1", Since: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
		},
		`WARN msg="renewal failed" kind=lock name=a id=u:1 left=1s error="the cause"`: protocol.RenewFailed{
			Kind: "lock", Name: "a", ID: "u:1", Left: time.Second, Err: cause,
		},
		`WARN msg="outcome unconfirmed" name=a do=release error="the cause"`: protocol.Unconfirmed{Name: "a", Do: "release", Err: cause},
		`INFO msg=reconnected channels=3`:                                    protocol.Reconnected{Channels: 3},
		`WARN msg="subscription refused" name=a channel=c error="the cause"`: protocol.SubscribeRefused{Name: "a", Channel: "c", Err: cause},
		`WARN msg="place in queue lost" name=a id=u:1`:                       protocol.QueueLost{Name: "a", ID: "u:1"},
		`ERROR msg="actor panicked" name=a value=oops`:                       protocol.ActorPanicked{Name: "a", Value: "oops", Stack: "long"},
		`WARN msg="request dropped" name=a reason="no sender"`:               protocol.RequestDropped{Name: "a", Reason: "no sender"},
		`WARN msg="requester blocked" requester=p waiting=2`:                 protocol.RequesterBlocked{Requester: "p", Waiting: 2},
		`ERROR msg="callback panicked" value=oops`:                           protocol.CallbackPanicked{Value: "oops"},
		`WARN msg="campaign failed" election=a`:                              warning{"campaign failed", []slog.Attr{slog.String("election", "a")}},
		`WARN msg="events dropped" count=5`:                                  protocol.EventsDropped{Count: 5},
	} {
		var log bytes.Buffer
		NewEvents(slog.New(slog.NewTextHandler(&log, nil)), nil).log(event)
		assert.Contains(t, log.String(), "level="+text+"\n")
	}
}
