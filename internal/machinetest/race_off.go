//go:build !race

package machinetest

const raceEnabled = false
