//go:build !race

package holdfast_test

// raceDetector makes everything ten times slower: the scale tests then do with less.
const raceDetector = false
