/** A program that carries out requests from standard input with the real Redisson. {@link Driver} describes the protocol. */
package holdfast.interop;
