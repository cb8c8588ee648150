/**
 * Redisson as the benchmarks drive it. The harness and this process talk in lines of JSON, as bench/load/protocol.go defines them: orders
 * on standard input, reports on standard output. The process ends when its input does.
 */
package holdfast.bench;
