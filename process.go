package holdfast

import (
	"cmp"
	"os"
	"runtime/debug"
	"strconv"
)

// HostProcess returns "service@host:pid" for Options.Process: the service, the name of this host, and the ID of this process.
func HostProcess(service string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return service + "@" + host + ":" + strconv.Itoa(os.Getpid())
}

// version returns the version of Holdfast in this binary.
func version() string {
	const own, unknown = "github.com/holdfast-go/holdfast", "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	if info.Main.Path == own {
		return cmp.Or(info.Main.Version, unknown)
	}
	for _, module := range info.Deps {
		if module.Path == own {
			return cmp.Or(module.Version, unknown)
		}
	}
	return unknown
}
