package scripts

import (
	_ "embed"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/protocol"
)

var (
	//go:embed process_announce.lua
	processAnnounceLua string
	//go:embed process_forget.lua
	processForgetLua string

	processAnnounce = load("process_announce", processAnnounceLua)
	processForget   = load("process_forget", processForgetLua)
)

// Announcement is the information that a process publishes about itself.
type Announcement struct {
	Name    string
	Version string
	Since   int64 // server time in ms
}

// MaxAnnouncement is the length in bytes of the longest announcement.
const MaxAnnouncement = len("1234567890123") + 1 + maxVersion + 1 + protocol.MaxName

const maxVersion = 128

// Announcing contains the calls with which Runtime.Check tries an announcement, if the process is announced. It is a Kind, but not a kind of lock.
var Announcing = &Kind{Name: "announcement of the process", Counting: &Counting{Check: func(_ *Site, raw string, _ func() string) []Call {
	return []Call{AnnounceProcess(raw, "check", "v0", 0, time.Second), ForgetProcess(raw)}
}}}

// AnnounceProcess returns a call that announces the process of a runtime. The parameter `age` says how long the runtime has been running. The
// parameter `version` is the version of Holdfast. The parameter `keep` says for how long Redis keeps the announcement.
func AnnounceProcess(runtime, name, version string, age, keep time.Duration) Call {
	c := newCall(processAnnounce, 2, 5, 1)
	c.Command = append(c.Command, ProcessKey(runtime), ProcessesKey, age.Milliseconds(), nil, keep.Milliseconds(), runtime, version+" "+name)
	return c
}

// ForgetProcess returns a call that deletes the announcement.
func ForgetProcess(runtime string) Call {
	c := newCall(processForget, 2, 1, -1)
	c.Command = append(c.Command, ProcessKey(runtime), ProcessesKey, runtime)
	return c
}

var announcementShape = regexp.MustCompile(`^([0-9]{1,13}) ([!-~]{1,128}) (.+)$`)

// ReadAnnouncement reads the value of a ProcessKey. The result `ok` is false if the value is not an announcement.
func ReadAnnouncement(value string) (a Announcement, ok bool) {
	parts := announcementShape.FindStringSubmatch(value)
	if parts == nil || protocol.CheckProcess(parts[3]) != nil {
		return a, false
	}
	a.Since, _ = strconv.ParseInt(parts[1], 10, 64)
	a.Version, a.Name = parts[2], parts[3]
	return a, true
}

// IsRuntime reports whether a text may be the UUID of a runtime.
func IsRuntime(text string) bool {
	_, writer, owner := IsOwner(text + ":0")
	return owner && !writer
}
