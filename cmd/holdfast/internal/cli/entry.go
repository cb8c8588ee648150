package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/inspect"
)

// lockJSON is a lock in JSON. doc/command.md describes it; fields may be added.
type lockJSON struct {
	Name      string       `json:"name"`
	NameBytes string       `json:"name_base64,omitempty"`
	Kind      string       `json:"kind"`
	Key       string       `json:"key"`
	Mode      string       `json:"mode,omitempty"`
	Holders   []holderJSON `json:"holders"`
	Queue     []string     `json:"queue,omitempty"`
	TTL       *int64       `json:"ttl_ms"`
	Waiting   int          `json:"waiting"`
	Token     int64        `json:"token,omitempty"`
	Permits   *int         `json:"permits,omitempty"`
	Available *int         `json:"available,omitempty"`
	Count     *int         `json:"count,omitempty"`
	Renewed   *bool        `json:"renewed,omitempty"`
}

type holderJSON struct {
	ID      string       `json:"id"`
	Holds   int          `json:"holds"`
	TTL     *int64       `json:"ttl_ms"`
	Process *processJSON `json:"process"`
}

type processJSON struct {
	Name    string     `json:"name"`
	Runtime string     `json:"runtime"`
	Version string     `json:"version,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
}

func jsonOf(e inspect.Entry) lockJSON {
	l := lockJSON{
		Name: e.Name, NameBytes: text.Bytes(e.Name), Kind: string(e.Kind), Key: e.Key, Mode: e.Mode, Holders: []holderJSON{}, Queue: e.Queue,
		Waiting: e.Waiting, Token: e.Token,
	}
	if len(e.Holders) > 0 {
		l.TTL = milliseconds(ttlOf(e))
	}
	switch e.Kind {
	case holdfast.KindPermitSemaphore:
		l.Permits, l.Available = &e.Permits, &e.Available
	case holdfast.KindSemaphore, holdfast.KindLatch:
		l.Count = &e.Count
	}
	for _, h := range e.Holders {
		shown := holderJSON{ID: h.ID, Holds: h.Holds, TTL: milliseconds(h.TTL)}
		if p := h.Process; p.Name != "" {
			shown.Process = &processJSON{Name: p.Name, Runtime: p.Runtime, Version: p.Version}
			if !p.Since.IsZero() {
				since := p.Since.UTC()
				shown.Process.Since = &since
			}
		}
		l.Holders = append(l.Holders, shown)
	}
	return l
}

// ttlOf is the time until Redis frees a lock. For a permit semaphore it is the time until the last held permit expires.
func ttlOf(e inspect.Entry) time.Duration {
	ttl := e.TTL
	if e.Kind == holdfast.KindPermitSemaphore {
		for _, h := range e.Holders {
			ttl = max(ttl, h.TTL)
		}
	}
	return ttl
}

// milliseconds returns a time to live in ms. A negative time means that there is no end; milliseconds then returns nil.
func milliseconds(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// The columns of a list of locks.
const (
	columnName = iota
	columnKind
	columnHolder
	columnProcess
	columnTTL
	columnWaiting
	columnCount
)

var titles = [columnCount]string{"NAME", "KIND", "HOLDER", "PROCESS", "TTL", "WAITING"}

// cells returns the row of a lock in a table. If short is true, the cells are shortened for a terminal.
func cells(e inspect.Entry, short bool) (c [columnCount]string) {
	c = [columnCount]string{text.Show(e.Name), string(e.Kind), "-", "-", "-", "-"}
	if len(e.Holders) > 0 {
		c[columnTTL] = showTTL(ttlOf(e))
	}
	if e.Waiting > 0 {
		c[columnWaiting] = strconv.Itoa(e.Waiting)
	}
	var ids, processes []string
	for i, h := range e.Holders {
		if i == 3 || short && i == 1 {
			ids = append(ids, fmt.Sprintf("+%d", len(e.Holders)-i))
			break
		}
		id := text.Show(h.ID)
		if short {
			id = shortID(id)
		}
		ids = append(ids, id)
		if h.Process.Name != "" {
			processes = append(processes, text.Show(h.Process.Name))
		}
	}
	switch {
	case e.Kind == holdfast.KindPermitSemaphore:
		c[columnHolder] = fmt.Sprintf("%d of %d permits", e.Permits-e.Available, e.Permits)
	case e.Kind == holdfast.KindSemaphore, e.Kind == holdfast.KindLatch:
		c[columnHolder] = fmt.Sprintf("count %d", e.Count)
	case len(ids) > 0:
		c[columnHolder] = strings.Join(ids, " ")
	}
	if len(processes) > 0 {
		c[columnProcess] = strings.Join(processes, " ")
	}
	return c
}

// shortID shortens an owner's ID, which consists of a runtime and an owner, separated by a colon. It keeps the beginning of each: enough to
// distinguish runtimes, and the owners of one runtime.
func shortID(id string) string {
	runtime, owner, found := strings.Cut(id, ":")
	if !found || len(runtime) <= 8 {
		return text.Cut(id, 16)
	}
	if len(owner) > 4 {
		owner = owner[:4]
	}
	return runtime[:8] + "…:" + owner
}

// showTTL returns a time to live as text for people.
func showTTL(d time.Duration) string {
	switch {
	case d < 0:
		return "never"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}
