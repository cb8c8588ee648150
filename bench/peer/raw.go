package peer

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// rawDepth is how many commands are on the way at once.
const rawDepth = 64

var rawPeer = &Peer{
	Name: "raw-64",
	About: "Holdfast's two scripts, encoded beforehand, written to two sockets 64 deep in all; of the replies only the kind is looked at. " +
		"No library can be faster with these scripts",
	Source:      "an own loader",
	Role:        Floor,
	Kinds:       exclusiveOnly,
	Keys:        sameKey,
	OpenBatches: openRaw,
}

type raw struct {
	env   Env
	lanes []*rawLane
}

// rawLane is one connection; its locks are taken depth by depth.
type rawLane struct {
	conn               net.Conn
	replies            *bufio.Reader
	acquires, releases [][]byte // one element a chunk
	sizes              []int
}

func openRaw(ctx context.Context, env Env, names []string) (Batches, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis})
	defer func() { _ = client.Close() }()
	if err := loadScripts(ctx, client); err != nil {
		return nil, err
	}
	r := &raw{env: env}
	shares := sharesOf(names, env)
	for _, s := range shares {
		lane, err := newRawLane(env, s, max(rawDepth/len(shares), 1))
		if err != nil {
			return nil, err
		}
		r.lanes = append(r.lanes, lane)
	}
	return r, nil
}

func newRawLane(env Env, s share, depth int) (*rawLane, error) {
	conn, err := net.Dial("tcp", env.Redis)
	if err != nil {
		return nil, err
	}
	lane := &rawLane{conn: conn, replies: bufio.NewReaderSize(conn, 1<<16)}
	for from := 0; from < len(s.acquires); from += depth {
		to := min(from+depth, len(s.acquires))
		lane.acquires = append(lane.acquires, encode(s.acquires[from:to]))
		lane.releases = append(lane.releases, encode(s.releases[from:to]))
		lane.sizes = append(lane.sizes, to-from)
	}
	return lane, nil
}

func (r *raw) Lanes() int { return len(r.lanes) }

func (r *raw) Close() error {
	for _, lane := range r.lanes {
		_ = lane.conn.Close()
	}
	return nil
}

func (r *raw) Pairs(_ context.Context, lane int, done func(int, time.Duration)) error {
	l := r.lanes[lane]
	for i, size := range l.sizes {
		start := time.Now()
		n, err := l.exchange(l.acquires[i], size)
		wait := time.Since(start)
		if err == nil && n != size {
			err = fmt.Errorf("raw: %d of %d locks granted", n, size)
		}
		if err != nil {
			return err
		}
		if _, err := l.exchange(l.releases[i], size); err != nil {
			return err
		}
		done(size, wait)
	}
	return nil
}

func (r *raw) Exclusive(ctx context.Context) error {
	return onlyOne(ctx, r.env, func(calls [][]any) (int, error) { return r.lanes[0].exchange(encode(calls), len(calls)) })
}

// exchange writes commands and reads as many replies; it counts those that are a grant.
func (l *rawLane) exchange(commands []byte, replies int) (granted int, err error) {
	if _, err := l.conn.Write(commands); err != nil {
		return 0, err
	}
	for range replies {
		ok, err := readGrant(l.replies)
		if err != nil {
			return granted, err
		}
		if ok {
			granted++
		}
	}
	return granted, nil
}

// readGrant reads one reply and reports whether it is a bulk string, as a grant is. {ttl, holder} and numbers are refusals or
// releases. An error reply is an error.
func readGrant(r *bufio.Reader) (bool, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	n, _ := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	switch line[0] {
	case ':', '_':
		return false, nil
	case '$':
		if n < 0 {
			return false, nil
		}
		_, err = r.Discard(n + len("\r\n"))
		return true, err
	case '*':
		for range n {
			if _, err := readGrant(r); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("raw: reply %q", line)
}

// encode writes commands in Redis' protocol.
func encode(calls [][]any) []byte {
	var all bytes.Buffer
	for _, call := range calls {
		fmt.Fprintf(&all, "*%d\r\n", len(call))
		for _, arg := range call {
			text := fmt.Sprint(arg)
			fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(text), text)
		}
	}
	return all.Bytes()
}
