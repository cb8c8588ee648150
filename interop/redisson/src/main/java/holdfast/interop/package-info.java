/** A program that does with the real Redisson what it is told in lines on standard input. {@link Driver} has the protocol. */
package holdfast.interop;
