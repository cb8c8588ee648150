package scripts

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/protocol"
)

// Announcement is what a process says about itself.
type Announcement struct {
	Name    string
	Version string
	Since   int64 // server time in ms
}

// MaxAnnouncement is the length in bytes of the longest announcement.
const MaxAnnouncement = len("1234567890123") + 1 + maxVersion + 1 + protocol.MaxName

const maxVersion = 128

var announcementShape = regexp.MustCompile(`^([0-9]{1,13}) ([!-~]{1,128}) (.+)$`)

// ReadAnnouncement reads the value of a ProcessKey; false if it is none.
func ReadAnnouncement(value string) (a Announcement, ok bool) {
	parts := announcementShape.FindStringSubmatch(value)
	if parts == nil || protocol.CheckProcess(parts[3]) != nil {
		return a, false
	}
	a.Since, _ = strconv.ParseInt(parts[1], 10, 64)
	a.Version, a.Name = parts[2], parts[3]
	return a, true
}

// RuntimeOf undoes ProcessKey.
func RuntimeOf(key string) (runtime string, ok bool) {
	runtime, opened := strings.CutPrefix(key, processPrefix)
	runtime, closed := strings.CutSuffix(runtime, "}")
	_, writer, owner := IsOwner(runtime + ":0")
	return runtime, opened && closed && owner && !writer
}
