package org.shop.ops

import org.shop.Basket

/** Brings a release to the servers. */
class Deployment extends Step implements Runnable {
    String release
    static final int RETRIES = 3

    def run(String host) {
        if (host.isEmpty()) {
            return rollback(host)
        }
        servers.each { server -> println server }
    }

    static void main(String[] args) {
        new Deployment().run('shop-1')
    }
}

interface Step {
    void undo()
}

enum Stage { BUILD, TEST, SHIP }

def rollback(host) {
    sh "release --undo ${host}"
}

task smokeTest {
    doLast { println 'alive' }
}

pipeline {
    agent any
    stages {
        stage('Ship') {
            steps { sh 'make ship' }
        }
    }
}
