package web

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// viewer reads a stream of events.
type viewer struct {
	t     *testing.T
	lines *bufio.Scanner
}

func watchStream(t *testing.T, address string) *viewer {
	t.Helper()
	answer, err := http.Get(address) //nolint:noctx // It ends with the test.
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	v := &viewer{t: t, lines: bufio.NewScanner(answer.Body)}
	v.lines.Buffer(nil, 4<<20)
	return v
}

// next returns the next event.
func (v *viewer) next() (e event) {
	v.t.Helper()
	for v.lines.Scan() {
		if data, found := strings.CutPrefix(v.lines.Text(), "data: "); found {
			require.NoError(v.t, json.Unmarshal([]byte(data), &e))
			return e
		}
	}
	require.Fail(v.t, "the stream has ended", "%v", v.lines.Err())
	return e
}

// sees reads events until an item of the given part of the page contains the text, and returns that item's HTML.
func (v *viewer) sees(part, text string) string {
	v.t.Helper()
	for {
		for _, u := range v.next().Parts {
			for _, html := range u.Items {
				if u.ID == part && strings.Contains(html, text) {
					return html
				}
			}
		}
	}
}

// While Redis is down, an open page says so and shows what was known. It becomes live again by itself.
func TestPage_RedisGoesAndComesBack(t *testing.T) {
	t.Parallel()
	for what, outage := range map[string]struct{ begin, end func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			client := server.Client(t)
			require.NoError(t, client.HSet(t.Context(), "orders", owner, 1).Err())
			site := httptest.NewServer(Handler(client, Options{}))
			defer site.Close()
			defer site.CloseClientConnections() // Close would wait for the stream
			v := watchStream(t, site.URL+"/events")
			v.sees("rows", "orders")
			for range 2 {
				began := time.Now()
				outage.begin(server)
				v.sees("state", "Redis cannot be read")
				assert.Less(t, time.Since(began), 10*time.Second+10*locktest.Slack())
				page := get(site.Config.Handler, "/")
				assert.Equal(t, http.StatusOK, page.Code)
				assert.Contains(t, page.Body.String(), "The page shows what it read last")
				assert.Contains(t, page.Body.String(), "orders")
				began = time.Now()
				outage.end(server)
				v.sees("state", "Live")
				assert.Less(t, time.Since(began), 10*time.Second+10*locktest.Slack())
			}
		})
	}
}

// A part of a look that is slow is not due in every look. If a look fails, and the next looks skip the part that failed, the page still reports
// the failure until Redis answers.
func TestLooker_FailureLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 2 * time.Second}
		f.set(held("orders", 0))
		l := newLooker(f.source(), "")
		done := l.watch(view{Page: "list"})
		pass(10 * time.Second)
		require.Empty(t, l.latest().err)
		f.fail(errors.New("no route"))
		pass(3 * time.Second)
		for range 60 {
			require.Equal(t, "no route", l.latest().err)
			pass(time.Second)
		}
		f.fail(nil)
		pass(5 * time.Second)
		assert.Empty(t, l.latest().err)
		done()
		pass(time.Minute)
	})
}

// A look that takes long does not count as an outage, unless Redis does not answer a ping.
func TestLooker_Doubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		f.set(held("orders", 0))
		l := newLooker(f.source(), "")
		done := l.watch(view{Page: "list"})
		pass(2500 * time.Millisecond)
		f.slow(20*time.Second, false)
		pass(10 * time.Second)
		require.Empty(t, l.latest().err)
		pass(time.Minute)
		f.slow(20*time.Second, true)
		pass(40 * time.Second)
		s := l.latest()
		assert.NotEmpty(t, s.err)
		assert.Len(t, s.sorted, 1, "the snapshot keeps what was known")
		f.slow(0, false)
		pass(time.Minute)
		assert.Empty(t, l.latest().err)
		done()
		pass(time.Minute)
	})
}
