from tpulite.report import peers_of


def test_peers_are_found_by_workload():
    assert {peer.peer for peer in peers_of("mlp_b16_stream")} >= {"Ethos-U55-256", "Ethos-U85-256"}
    assert peers_of("gemm_64x64x65") == ()
    for peer in peers_of("mlp_b16_cold"):
        assert peer.cycles > 1184 and peer.source
