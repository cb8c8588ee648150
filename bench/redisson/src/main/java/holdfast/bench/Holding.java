package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.api.RedissonClient;

/** Acquires all locks, holds them for the window, and releases them, each by the thread that acquired it. */
final class Holding {

    private final Contender contender;
    private final RedissonClient client;
    private final int locks;
    private final int threads;
    private final AtomicInteger lost = new AtomicInteger();
    private final AtomicReference<RuntimeException> failure = new AtomicReference<>();

    Holding(Contender contender) {
        this.contender = contender;
        client = contender.clients.get(0);
        locks = contender.workload.path("names").asInt();
        threads = contender.workload.path("goroutines").asInt();
    }

    Map<String, Object> run(JsonNode order) throws Exception {
        double heap = -Costs.heap();
        CyclicBarrier barrier = new CyclicBarrier(threads + 1);
        long start = System.nanoTime();
        for (int i = 0; i < threads; i++) {
            int first = i;
            new Thread(() -> hold(first, barrier)).start();
        }
        barrier.await(); // all acquired
        long acquired = System.nanoTime() - start;
        if (failure.get() != null) {
            barrier.reset();
            throw failure.get();
        }
        heap += Costs.heap();

        Main.report("mark", Map.of());
        long cpu = Costs.cpu();
        start = System.nanoTime();
        TimeUnit.NANOSECONDS.sleep(order.path("window").asLong());
        Map<String, Object> sample = Contender.sample(System.nanoTime() - start, Costs.cpu() - cpu);
        Main.report("mark", Map.of());

        start = System.nanoTime();
        barrier.await(); // release them
        barrier.await(); // all released
        sample.put("heap", heap);
        sample.put("acquireNs", acquired);
        sample.put("drainNs", System.nanoTime() - start);
        sample.put("lost", lost.get());
        return sample;
    }

    private void hold(int first, CyclicBarrier barrier) {
        try {
            try {
                for (int i = first; i < locks; i += threads) {
                    client.getLock(contender.names.held(i)).lock();
                }
            } catch (RuntimeException e) {
                failure.compareAndSet(null, e);
            }
            barrier.await();
            barrier.await();
            for (int i = first; i < locks; i += threads) {
                try {
                    client.getLock(contender.names.held(i)).unlock();
                } catch (RuntimeException e) {
                    lost.incrementAndGet();
                }
            }
            barrier.await();
        } catch (Exception e) {
            Thread.currentThread().interrupt();
        }
    }
}
