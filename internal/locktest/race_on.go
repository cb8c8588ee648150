//go:build race

package locktest

// raceDetector tells whether the race detector is on.
const raceDetector = true
