/**
 * Runs Redisson for the benchmarks. The harness and this process exchange lines of JSON, as bench/load/protocol.go defines them: orders
 * on standard input, reports on standard output. The process ends when its input ends.
 */
package holdfast.bench;
