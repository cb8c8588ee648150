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

var rawPeer = &Peer{
	Name: "raw",
	About: "Holdfast's two scripts, encoded beforehand, written to two sockets, all locks of a socket at once; of each reply only its kind " +
		"is read",
	Source:      "a loader written for this benchmark",
	Role:        Floor,
	Kinds:       exclusiveOnly,
	Keys:        sameKey,
	OpenBatches: openRaw,
}

type raw struct {
	env   Env
	lanes []*rawLane
}

// rawLane is one connection, and the commands for its locks.
type rawLane struct {
	conn               net.Conn
	replies            *bufio.Reader
	acquires, releases []byte
	locks              int
}

func openRaw(ctx context.Context, env Env, names []string) (Batches, error) {
	client := redis.NewClient(&redis.Options{Addr: env.Redis})
	defer func() { _ = client.Close() }()
	if err := loadScripts(ctx, client); err != nil {
		return nil, err
	}
	r := &raw{env: env}
	for _, s := range sharesOf(names, env) {
		lane, err := newRawLane(env, s)
		if err != nil {
			return nil, err
		}
		r.lanes = append(r.lanes, lane)
	}
	return r, nil
}

func newRawLane(env Env, s share) (*rawLane, error) {
	conn, err := net.Dial("tcp", env.Redis)
	if err != nil {
		return nil, err
	}
	return &rawLane{conn, bufio.NewReaderSize(conn, 1<<16), encode(s.acquires), encode(s.releases), len(s.acquires)}, nil
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
	start := time.Now()
	n, err := l.exchange(l.acquires, l.locks)
	wait := time.Since(start)
	if err == nil && n != l.locks {
		err = fmt.Errorf("raw: %d of %d locks granted", n, l.locks)
	}
	if err != nil {
		return err
	}
	if _, err = l.exchange(l.releases, l.locks); err == nil {
		done(n, wait)
	}
	return err
}

func (r *raw) Exclusive(ctx context.Context) error {
	return onlyOne(ctx, r.env, func(calls [][]any) (int, error) { return r.lanes[0].exchange(encode(calls), len(calls)) })
}

// exchange writes the commands, reads their replies, and counts the grants.
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

// readGrant reads one reply and reports whether it is a grant, which is a bulk string. The reply of a refused acquire is an array
// {ttl, holder}; the reply to a release is a number or nil. An error reply is returned as an error.
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

// encode returns the commands in Redis's wire protocol.
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
