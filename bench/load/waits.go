package load

import (
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest wait that a histogram tells from others.
const longest = 10 * time.Minute

// NewHistogram is a histogram of durations in ns, exact to three digits.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), 3) }

// waits is a histogram that many goroutines write to: a few of them share a part, so that none waits for another for long and ten
// thousand goroutines do not need ten thousand histograms.
type waits struct{ parts []*part }

type part struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
	_  [40]byte // not on one cache line with the next
}

func newWaits(goroutines int) *waits {
	w := &waits{parts: make([]*part, min(max(goroutines, 1), 16))}
	for i := range w.parts {
		w.parts[i] = &part{h: NewHistogram()}
	}
	return w
}

func (w *waits) add(goroutine, n int, d time.Duration) {
	p := w.parts[goroutine%len(w.parts)]
	p.mu.Lock()
	_ = p.h.RecordValues(min(max(int64(d), 1), int64(longest)), int64(n))
	p.mu.Unlock()
}

// encode is the sum of the parts.
func (w *waits) encode() (string, error) {
	all := NewHistogram()
	for _, p := range w.parts {
		all.Merge(p.h)
	}
	return Encode(all)
}

// Encode writes a histogram as the results keep it: V2 compressed, in base64.
func Encode(h *hdrhistogram.Histogram) (string, error) {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(text), err
}

// Decode reads what Encode wrote, or another implementation of the format.
func Decode(text string) (*hdrhistogram.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}
