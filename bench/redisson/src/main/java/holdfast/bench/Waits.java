package holdfast.bench;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Base64;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;

/** A histogram that many threads write to. It has parts, each shared by a few of them. */
final class Waits {

    private static final long LONGEST = TimeUnit.MINUTES.toNanos(10);
    private final Histogram[] parts = new Histogram[16];

    Waits() {
        Arrays.setAll(parts, i -> empty());
    }

    private static Histogram empty() {
        return new Histogram(1, LONGEST, 3);
    }

    void add(int worker, long nanos) {
        Histogram part = parts[worker % parts.length];
        synchronized (part) {
            part.recordValue(Math.min(Math.max(nanos, 1), LONGEST));
        }
    }

    /** Returns the sum of the parts, V2 compressed, in base64. */
    String encode() {
        Histogram all = empty();
        for (Histogram part : parts) {
            synchronized (part) {
                all.add(part);
            }
        }
        ByteBuffer buffer = ByteBuffer.allocate(all.getNeededByteBufferCapacity());
        int size = all.encodeIntoCompressedByteBuffer(buffer);
        return Base64.getEncoder().encodeToString(Arrays.copyOf(buffer.array(), size));
    }
}
