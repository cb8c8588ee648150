package scripts

import (
	_ "embed"
	"strconv"
	"time"
)

var (
	//go:embed leader_announce.lua
	leaderAnnounceLua string
	//go:embed leader_read.lua
	leaderReadLua string

	leaderAnnounce = load("leader_announce", leaderAnnounceLua)
	leaderRead     = load("leader_read", leaderReadLua)
)

// LeaderKey is the key with the leader of an election. The channel on which a new leader is published has the same name.
func LeaderKey(raw string) string { return leaderChannels + tagged(raw) }

// Leader is what Redis knows about the leader of an election.
type Leader struct {
	Token          int64
	Grant          string // owner field in the lock of the election; set only for AnnounceLeader
	Runtime, Value string
	Since          time.Duration // when it announced itself, as server time since 1970; set only by LeaderOf
}

// Electing is not a kind of lock. It contains the calls that a check of an election tries. The check tries the calls for the election's lock
// separately (FencedLock).
var Electing = &Kind{Name: "election", Counting: &Counting{Check: func(s *Site, raw string, newID func() string) []Call {
	return []Call{AnnounceLeader(s, raw, Leader{Token: 1, Grant: newID()}, time.Second), ReadLeader(raw)}
}}}

// AnnounceLeader returns a call that writes the leader. The parameter `keep` says how long Redis keeps the entry. The reply is 0 if the leader does
// not hold the lock.
func AnnounceLeader(s *Site, raw string, l Leader, keep time.Duration) Call {
	c := newCall(leaderAnnounce, 3, 6, -1)
	c.Command = append(c.Command, raw, LeaderKey(raw), LeaderKey(raw), l.Token, l.Grant, l.Runtime, l.Value, keep.Milliseconds(), s.Publish)
	return c
}

// ReadLeader returns a call that reads the leader.
func ReadLeader(raw string) Call {
	c := newCall(leaderRead, 2, 0, -1)
	c.Command = append(c.Command, raw, LeaderKey(raw))
	return c
}

// LeaderOf reads the reply to ReadLeader. The result `leads` is false if there is no leader.
func LeaderOf(reply any) (l Leader, leads bool, err error) {
	if reply == nil {
		return l, false, nil
	}
	fields, _ := reply.([]any)
	var texts [4]string
	if len(fields) == len(texts) {
		for i, field := range fields {
			texts[i], _ = field.(string)
		}
	}
	token, badToken := strconv.ParseInt(texts[0], 10, 64)
	since, badSince := strconv.ParseInt(texts[3], 10, 64)
	if badToken != nil || badSince != nil {
		return l, false, unexpected("leader_read", reply)
	}
	return Leader{Token: token, Runtime: texts[1], Value: texts[2], Since: time.Duration(since) * time.Millisecond}, true, nil
}
