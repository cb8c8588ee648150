package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// binaryVar names the redis-server to use instead of the first one on PATH.
const binaryVar = "HOLDFAST_REDIS_SERVER"

var errNoBinary = errors.New("redis-server is not on PATH: apt-get install redis-server, " +
	"brew install redis, or set " + binaryVar + " to the binary")

func findBinary() (string, error) {
	if named := os.Getenv(binaryVar); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s=%s is no program: %w", binaryVar, named, err)
		}
		return path, nil
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errNoBinary
	}
	return path, nil
}
