//! Over real sockets, in real time: what only a network can do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paceline_client::{Ask, Limiter};
use paceline_proto::v1::rate_limiter_server::RateLimiterServer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::peer::{Peer, Say, grant, queued};

/// A scripted service behind a port.
async fn listen(peer: &Peer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = Server::builder().add_service(RateLimiterServer::new(peer.clone()));
    tokio::spawn(serve.serve_with_incoming(TcpListenerStream::new(listener)));
    addr
}

/// A cable in front of it that can be cut without anybody being told: packets vanish, connections stay.
async fn cable(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, is_cut) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let cut = is_cut.clone();
    tokio::spawn(async move {
        let mut ends = Vec::new();
        while let Ok((near, _)) = listener.accept().await {
            let (near_in, near_out) = near.into_split();
            if cut.load(Ordering::Relaxed) {
                ends.push((near_in, near_out)); // accepted, and nothing more
                continue;
            }
            let (far_in, far_out) = TcpStream::connect(to).await.unwrap().into_split();
            for (mut from, mut into) in [(near_in, far_out), (far_in, near_out)] {
                let cut = cut.clone();
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    while let Ok(count @ 1..) = from.read(&mut bytes).await {
                        if cut.load(Ordering::Relaxed) {
                            return std::future::pending().await;
                        }
                        into.write_all(&bytes[..count]).await.unwrap();
                    }
                });
            }
        }
    });
    (addr, is_cut)
}

/// An ask with a ticket may be held for ten seconds; that its replica vanished shows in unanswered pings long before.
#[tokio::test]
async fn a_held_ask_leaves_a_replica_that_vanished_within_five_seconds() {
    let peers = [Peer::default(), Peer::default()];
    let (mut addrs, mut cuts) = (Vec::new(), Vec::new());
    for peer in &peers {
        let (addr, cut) = cable(listen(peer).await).await;
        addrs.push(addr.to_string());
        cuts.push(cut);
        peer.on_acquire(queued("place", Duration::ZERO));
        peer.on_acquire(Say { after: Duration::from_secs(60), answer: Ok(grant("never", Duration::ZERO)) });
    }
    let limiter = Limiter::builder().addrs(addrs).build().unwrap();
    let asking = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(Ask::new("openai")).await.map(|slot| slot.lease_id().to_owned()) }
    });
    let home = loop {
        if let Some(home) = peers.iter().position(|peer| peer.acquires().len() == 2) {
            break home;
        }
        sleep(Duration::from_millis(5)).await;
    };
    let other = &peers[1 - home];
    other.on_acquire(grant("unused", Duration::ZERO));
    let began = Instant::now();
    cuts[home].store(true, Ordering::Relaxed);
    // The other's script begins with a place as well, and holds the ask after it: that it was asked is what counts.
    while other.acquires().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(5), "still with the one that vanished");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(other.acquires()[0].ticket, b"place");
    asking.abort();
}

/// `localhost` is one replica, whichever family it listens on.
#[tokio::test]
async fn a_name_is_looked_up_and_its_other_family_is_a_spare() {
    let peer = Peer::default();
    peer.always(grant("lease", Duration::ZERO));
    let addr = listen(&peer).await;
    let limiter = Limiter::builder().addr(format!("localhost:{}", addr.port())).build().unwrap();
    let slot = limiter.acquire(Ask::new("openai")).await.unwrap();
    assert_eq!(slot.lease_id(), "lease");
    slot.release().await.unwrap();
}
